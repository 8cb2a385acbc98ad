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
 * Returns which of `ids`, which are ascending and below `count`, has to get another number for fewer gaps; undefined if
 * there is none. Of the numbers between the others an empty one is preferred.
 */
export function moveOf(
  ids: readonly number[],
  count: number,
  isEmpty: (id: number) => boolean,
): { readonly from: number; readonly to: number } | undefined {
  let best = { start: 0, inside: 0 };
  for (let start = 0; start + ids.length <= count; start += 1) {
    const inside = ids.filter((id) => id >= start && id < start + ids.length).length;
    if (inside > best.inside) best = { start, inside };
  }
  const end = best.start + ids.length;
  const [first = 0, last = 0] = [ids[0], ids.at(-1)];
  const from = best.start - first > last - end + 1 ? first : last;
  if (best.inside === ids.length) return undefined;
  const holes = Array.from(ids, (_, at) => best.start + at).filter((id) => !ids.includes(id));
  const to = holes.find(isEmpty) ?? holes[0];
  return to === undefined ? undefined : { from, to };
}
