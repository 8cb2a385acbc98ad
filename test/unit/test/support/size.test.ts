import { expect, test } from "vitest";
import { eachOnce } from "../../../support/size.ts";

const product = (...columns: readonly string[]) =>
  columns.reduce<readonly string[]>((rows, column) => rows.flatMap((row) => [...column].map((one) => row + one)), [""]);

test("each value of each column occurs, in as few rows as the longest column has values", () => {
  const rows = eachOnce(product("abcde", "xyz", "01"), [
    (row) => row.slice(0, 1),
    (row) => row.slice(1, 2),
    (row) => row.slice(2),
  ]);
  expect(rows).toHaveLength(5);
  expect(new Set(rows.join(""))).toEqual(new Set("abcdexyz01"));
});

test("rows keep their order, and the selection is deterministic", () => {
  const choose = () => eachOnce(["b1", "a1", "a2"], [(row) => row.slice(0, 1), (row) => row.slice(1)]);
  expect(choose()).toEqual(["b1", "a2"]);
  expect(choose()).toEqual(choose());
});
