import type { CodeRange } from "../../gbnf/gbnf.ts";

/** All code points of text: all but the halves of surrogate pairs. */
export const ALL_CODES: readonly CodeRange[] = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** Returns the union of ranges, sorted and without overlaps. */
export function unite(ranges: readonly CodeRange[]): readonly CodeRange[] {
  const result: [number, number][] = [];
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last !== undefined && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else result.push([low, high]);
  }
  return result;
}

/** Returns what is in `from` and not in `taken`. */
export function subtract(from: readonly CodeRange[], taken: readonly CodeRange[]): readonly CodeRange[] {
  let left = unite(from);
  for (const [low, high] of taken) {
    left = left.flatMap(([start, end]): CodeRange[] => {
      if (high < start || low > end) return [[start, end]];
      const pieces: CodeRange[] = [];
      if (start < low) pieces.push([start, low - 1]);
      if (high < end) pieces.push([high + 1, end]);
      return pieces;
    });
  }
  return left;
}

/** Returns whether one of the ranges holds a code point. */
export function includes(ranges: readonly CodeRange[], code: number): boolean {
  return ranges.some(([low, high]) => low <= code && code <= high);
}
