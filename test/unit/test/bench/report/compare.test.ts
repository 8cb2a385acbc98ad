import { expect, test } from "vitest";
import { medianAdded, medianOf, medianRatio } from "../../../../bench/report.ts";

const ROUNDS = [
  new Map([
    ["net", 10],
    ["gateway", 20],
  ]),
  new Map([
    ["net", 100],
    ["gateway", 400],
  ]),
  new Map([
    ["net", 20],
    ["gateway", 60],
  ]),
];
const itself = (value: number) => value;

test("ratios and differences are computed within a round before the median", () => {
  expect(medianRatio(ROUNDS, "gateway", "net", itself)).toBe(3);
  expect(medianAdded(ROUNDS, "gateway", "net", itself)).toBe(40);
  expect(medianOf(ROUNDS, "gateway", itself)).toBe(60);
});

test("a missing measurement is NaN", () => {
  expect(medianRatio(ROUNDS, "gateway", "nginx", itself)).toBeNaN();
});
