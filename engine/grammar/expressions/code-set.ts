import type { CodeRange } from "../../gbnf/gbnf.ts";

/** All code points except surrogates. */
export const ALL_CODES: readonly CodeRange[] = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

export function unite(ranges: readonly CodeRange[]): readonly CodeRange[] {
  const result: [number, number][] = [];
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last !== undefined && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else result.push([low, high]);
  }
  return result;
}

export function subtract(from: readonly CodeRange[], taken: readonly CodeRange[]): readonly CodeRange[] {
  const gone = unite(taken);
  const left: CodeRange[] = [];
  let at = 0;
  for (const [start, end] of unite(from)) {
    let low = start;
    while (at < gone.length && (gone[at]?.[1] ?? 0) < low) at += 1;
    for (let i = at; low <= end; i += 1) {
      const [goneFrom, goneTo] = gone[i] ?? [end + 1, end + 1];
      if (goneFrom > low) left.push([low, Math.min(end, goneFrom - 1)]);
      low = Math.max(low, goneTo + 1);
    }
  }
  return left;
}

export function includes(ranges: readonly CodeRange[], code: number): boolean {
  return ranges.some(([low, high]) => low <= code && code <= high);
}
