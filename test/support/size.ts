import { inject } from "vitest";
import type { Size } from "../vitest.config.ts";

declare module "vitest" {
  interface ProvidedContext {
    readonly size: Size;
  }
}

export type Sizes = {
  readonly quick: number;
  /** In `npm run test:rest`; default: `quick`. */
  readonly exhaustive?: number;
  /** With FULL=1; default: `exhaustive`. */
  readonly promised?: number;
};

export function sizeOf({ quick, exhaustive = quick, promised = exhaustive }: Sizes): number {
  return { quick, exhaustive, promised }[inject("size")];
}

/** Returns all rows of a product with FULL=1, otherwise those of `eachOnce`. */
export function covering<Row>(rows: readonly Row[], ...columns: readonly ((row: Row) => string)[]): readonly Row[] {
  return inject("size") === "promised" ? rows : eachOnce(rows, columns);
}

/** Returns the fewest rows such that each value of each column occurs; of equals, that with least used values. */
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
