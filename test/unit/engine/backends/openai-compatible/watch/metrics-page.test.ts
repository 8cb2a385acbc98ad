import { expect, test } from "vitest";
import { quantileOf, readMetricsPage } from "../../../../../../engine/backends/openai-compatible/watch/metrics-page.ts";

const bucketsOf = (counts: Readonly<Record<string, number>>, engine = "0") =>
  Object.entries(counts).map(([le, value]) => ({ labels: `engine="${engine}",le="${le}"`, value }));

test.each<[string, ReturnType<typeof bucketsOf>, number | undefined]>([
  ["there are no observations", bucketsOf({ "1.0": 0, "+Inf": 0 }), undefined],
  ["there are no buckets", [], undefined],
  ["it lies in the first bucket", bucketsOf({ "10.0": 10, "+Inf": 10 }), 1],
  ["it lies between two edges", bucketsOf({ "10.0": 0, "20.0": 50, "+Inf": 100 }), 12],
  ["it lies beyond the last edge", bucketsOf({ "10.0": 1, "+Inf": 100 }), 10],
  [
    "several replicas export it",
    [...bucketsOf({ "10.0": 0, "20.0": 10, "+Inf": 10 }), ...bucketsOf({ "10.0": 10, "20.0": 10, "+Inf": 10 }, "1")],
    2,
  ],
])("the first tenth of a histogram when %s", (_when, buckets, found) => {
  expect(quantileOf(buckets, 0.1)).toBe(found);
});

test("a page is parsed line by line, and other lines are skipped", () => {
  const page = '# HELP a b\n# TYPE a gauge\na{b="c d"} 1.5\na 2 1700000000000\nnonsense\nnan NaN\ne 1e3';
  expect([...readMetricsPage(page)]).toEqual([
    [
      "a",
      [
        { labels: 'b="c d"', value: 1.5 },
        { labels: "", value: 2 },
      ],
    ],
    ["e", [{ labels: "", value: 1_000 }]],
  ]);
});
