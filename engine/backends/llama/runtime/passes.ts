/** A sequence of a batch: its number in the context, and how many tokens of it are evaluated. */
export type Row = { readonly id: number; readonly tokens: number };

/**
 * Counts the passes in which llama.cpp computes a batch whose rows are in order of their numbers. A pass takes rows whose
 * numbers follow each other, and as many tokens of each as the shortest of them has left.
 */
export function passesOf(rows: readonly Row[]): number {
  const left = rows.map(({ id, tokens }) => ({ id, tokens }));
  for (let passes = 0; ; passes += 1) {
    const together: { id: number; tokens: number }[] = [];
    for (const row of left) {
      const last = together.at(-1);
      if (row.tokens > 0 && (!last || row.id === last.id + 1)) together.push(row);
    }
    if (together.length === 0) return passes;
    const tokens = Math.min(...together.map((row) => row.tokens));
    for (const row of together) row.tokens -= tokens;
  }
}

/** Returns the numbers in the gaps between `ids`, which are ascending, that are at most `most` wide and all `usable`. */
export function gapsOf(ids: readonly number[], most: number, usable: (id: number) => boolean): readonly number[] {
  return ids.flatMap((id, at) => {
    const before = ids[at - 1] ?? id;
    const gap = Array.from({ length: Math.max(0, id - before - 1) }, (_, step) => before + 1 + step);
    return gap.length <= most && gap.every(usable) ? gap : [];
  });
}

/**
 * Returns which of `ids`, which are ascending and below `count`, is to get which number nearer to their middle, an empty
 * one if there is any; undefined if they are neighbours.
 */
export function moveOf(
  ids: readonly number[],
  count: number,
  isEmpty: (id: number) => boolean,
): { readonly from: number; readonly to: number } | undefined {
  const middle = ids[ids.length >> 1] ?? 0;
  const far = (id: number) => Math.abs(id - middle);
  const from = ids.reduce((one, other) => (far(other) > far(one) ? other : one), middle);
  const nearer = Array.from({ length: count }, (_, id) => id).filter((id) => far(id) < far(from) && !ids.includes(id));
  const to = nearer.find(isEmpty) ?? nearer.toSorted((one, other) => far(one) - far(other))[0];
  return to === undefined ? undefined : { from, to };
}
