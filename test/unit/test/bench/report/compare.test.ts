import { expect, test } from "vitest";
import { medianAdded, medianOf, medianRatio } from "../../../../bench/report/compare.ts";

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

test("ratios and differences are taken within a round, and only then the median", () => {
  expect(medianRatio(ROUNDS, "gateway", "net", itself)).toBe(3);
  expect(medianAdded(ROUNDS, "gateway", "net", itself)).toBe(40);
  expect(medianOf(ROUNDS, "gateway", itself)).toBe(60);
});

test("what was not measured is not a number", () => {
  expect(medianRatio(ROUNDS, "gateway", "nginx", itself)).toBeNaN();
});
