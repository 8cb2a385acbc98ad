export type RecordedPiece = {
  readonly parent: number;
  readonly tokens: number;
  /** The name of a piece shared with other sessions; undefined if it is not shared. */
  readonly sharedAs: string | undefined;
};

export type BlockRuns = readonly (readonly [first: number, last: number])[];

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

const MAX_BLOCKS = 64;

export type HeadCuts = Map<string, Set<number>>;

type Claim = { readonly head: string; readonly first: number; readonly last: number; readonly blocksBefore: number };

/** Cuts the prompts of a session into pieces, so that each prompt and each cut position ends with a whole piece. */
export class PieceCutter {
  readonly #claims: Claim[] = [];
  readonly #cuts = new Set<number>();
  #sorted: readonly number[] | undefined;
  readonly #byLastBlock = new Map<number, number>();
  readonly #pieces: RecordedPiece[] = [];

  get pieces(): readonly RecordedPiece[] {
    return this.#pieces;
  }

  claimHead(head: string, runs: BlockRuns, blocks: number): void {
    let before = 0;
    for (const [first, end] of runs) {
      const last = Math.min(end, first + blocks - before - 1);
      if (last < first) return;
      if (!this.#claimOf(first) && !this.#claimOf(last)) this.#claims.push({ head, first, last, blocksBefore: before });
      before += last - first + 1;
    }
  }

  cutAt(block: number | undefined): void {
    if (block !== undefined) this.#cuts.add(block);
  }

  cutRuns(runs: BlockRuns): void {
    for (const [, last] of runs) this.#cuts.add(last);
  }

  shareHeadCuts(headCuts: HeadCuts): void {
    for (const { head, first, last, blocksBefore } of this.#claims) {
      const cuts = headCuts.get(head) ?? new Set();
      headCuts.set(head, cuts.add(blocksBefore + last - first + 1));
      for (const cut of this.#cuts) if (cut >= first && cut <= last) cuts.add(blocksBefore + cut - first + 1);
    }
  }

  addHeadCuts(headCuts: HeadCuts): void {
    for (const { head, first, last, blocksBefore } of this.#claims)
      for (const blocks of headCuts.get(head) ?? []) {
        const cut = first + blocks - blocksBefore - 1;
        if (cut >= first && cut <= last) this.#cuts.add(cut);
      }
    this.#sorted = [...this.#cuts].sort((a, b) => a - b);
  }

  lastPiece(runs: BlockRuns, blockTokens: number): number {
    let piece = -1;
    let blocks = 0;
    for (const [first, last] of runs) {
      for (let from = first; from <= last; ) {
        const to = Math.min(last, this.#nextCut(from), from + MAX_BLOCKS - (blocks % MAX_BLOCKS) - 1);
        blocks += to - from + 1;
        piece = this.#piece(to, piece, (to - from + 1) * blockTokens, blocks);
        from = to + 1;
      }
    }
    return piece;
  }

  pieceEndingAt(block: number | undefined): number {
    return (block === undefined ? undefined : this.#byLastBlock.get(block)) ?? -1;
  }

  #piece(block: number, parent: number, tokens: number, blocks: number): number {
    const known = this.#byLastBlock.get(block);
    if (known !== undefined) return known;
    const claim = this.#claimOf(block);
    this.#pieces.push({ parent, tokens, sharedAs: claim && `${claim.head} ${blocks}` });
    this.#byLastBlock.set(block, this.#pieces.length - 1);
    return this.#pieces.length - 1;
  }

  #claimOf(block: number): Claim | undefined {
    return this.#claims.find(({ first, last }) => block >= first && block <= last);
  }

  #nextCut(from: number): number {
    const cuts = this.#sorted ?? [];
    let low = 0;
    let high = cuts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((cuts[middle] ?? 0) < from) low = middle + 1;
      else high = middle;
    }
    return cuts[low] ?? Number.POSITIVE_INFINITY;
  }
}
