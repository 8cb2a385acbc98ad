import { inject } from "vitest";
import type { Size } from "../vitest.config.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The size that the lane of the running test has. */
    readonly size: Size;
  }
}

/** The numbers of one thing that a test does, by the size of its lane. */
export type Sizes = {
  /** The number in `npm test`. */
  readonly quick: number;
  /** The number in `npm run test:rest`; that of `quick` where absent. */
  readonly exhaustive?: number;
  /** The number with FULL=1; that of `exhaustive` where absent. */
  readonly promised?: number;
};

/** Returns the number that the running lane wants. */
export function sizeOf({ quick, exhaustive = quick, promised = exhaustive }: Sizes): number {
  return { quick, exhaustive, promised }[inject("size")];
}

/**
 * Returns the rows of a product that the running lane wants: all of them with FULL=1, otherwise the few of
 * `eachOnce`. `columns` read the values of a row that must all occur; a value of several is a text made of them.
 */
export function covering<Row>(rows: readonly Row[], ...columns: readonly ((row: Row) => string)[]): readonly Row[] {
  return inject("size") === "promised" ? rows : eachOnce(rows, columns);
}

/**
 * Returns as few rows, in their order, as it takes for each value of each column to occur; which rows it takes is
 * the same for the same rows. Values share rows evenly: where several rows bring as much that is new, the one whose
 * values occurred least is taken.
 */
export function eachOnce<Row>(rows: readonly Row[], columns: readonly ((row: Row) => string)[]): readonly Row[] {
  const valuesOf = (row: Row) => columns.map((read, column) => `${column} ${read(row)}`);
  const uses = new Map<string, number>();
  const usesOf = (row: Row) => valuesOf(row).map((value) => uses.get(value) ?? 0);
  const taken = new Set<Row>();
  for (;;) {
    const left = rows
      .map((row) => ({ row, uses: usesOf(row) }))
      .map(({ row, uses }) => ({
        row,
        fresh: uses.filter((count) => count === 0).length,
        used: uses.reduce((sum, count) => sum + count, 0),
      }))
      .filter(({ fresh }) => fresh > 0)
      .sort((a, b) => b.fresh - a.fresh || a.used - b.used);
    const [best] = left;
    if (!best) return rows.filter((row) => taken.has(row));
    taken.add(best.row);
    for (const value of valuesOf(best.row)) uses.set(value, (uses.get(value) ?? 0) + 1);
  }
}
