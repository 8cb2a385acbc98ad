import { expect, test } from "vitest";
import { readMetricsPage } from "../../../../../../engine/backends/openai-compatible/watch/load.ts";

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
