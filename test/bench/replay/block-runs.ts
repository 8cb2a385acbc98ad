/** The blocks of a prompt as runs of successive ids. A block's id also identifies all blocks before it. */
export type BlockRuns = readonly (readonly [first: number, last: number])[];

/** Returns the number of leading blocks that two prompts share. */
export function commonBlocks(a: BlockRuns, b: BlockRuns): number {
  let blocks = 0;
  for (const [index, [first, last]] of a.entries()) {
    const other = b[index];
    if (!other || other[0] !== first) return blocks;
    blocks += Math.min(last, other[1]) - first + 1;
    if (last !== other[1]) return blocks;
  }
  return blocks;
}

/** Returns the id of the last of the first `blocks` blocks; undefined for 0 or if there are fewer. */
export function blockAt(runs: BlockRuns, blocks: number): number | undefined {
  let left = blocks;
  if (left <= 0) return undefined;
  for (const [first, last] of runs) {
    if (left <= last - first + 1) return first + left - 1;
    left -= last - first + 1;
  }
  return undefined;
}
