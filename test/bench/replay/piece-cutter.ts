import type { BlockRuns } from "./block-runs.ts";
import type { RecordedPiece } from "./recorded-session.ts";

/** The most blocks of a piece: longer stretches are cut at its multiples. */
const MAX_BLOCKS = 64;

/** For each head that sessions share, after how many blocks any of them cuts it. */
export type HeadCuts = Map<string, Set<number>>;

/** A stretch of a session's blocks that other sessions have, too. */
type Claim = { readonly head: string; readonly first: number; readonly last: number; readonly blocksBefore: number };

/** Cuts the prompts of a session into pieces, so that each prompt and each place of interest ends with a whole one. */
export class PieceCutter {
  readonly #claims: Claim[] = [];
  /** The ids of the blocks behind which there is a cut. */
  readonly #cuts = new Set<number>();
  #sorted: readonly number[] | undefined;
  /** The pieces by the ids of their last blocks. */
  readonly #byLastBlock = new Map<number, number>();
  readonly #pieces: RecordedPiece[] = [];

  /** The pieces that were made so far. */
  get pieces(): readonly RecordedPiece[] {
    return this.#pieces;
  }

  /** Takes the first `blocks` blocks of a prompt for those of a head that other sessions have, unless they are another's. */
  claimHead(head: string, runs: BlockRuns, blocks: number): void {
    let before = 0;
    for (const [first, end] of runs) {
      const last = Math.min(end, first + blocks - before - 1);
      if (last < first) return;
      if (!this.#claimOf(first) && !this.#claimOf(last)) this.#claims.push({ head, first, last, blocksBefore: before });
      before += last - first + 1;
    }
  }

  /** Cuts behind the block with this id. */
  cutAt(block: number | undefined): void {
    if (block !== undefined) this.#cuts.add(block);
  }

  /** Cuts where the prompt leaves the way of another one. */
  cutRuns(runs: BlockRuns): void {
    for (const [, last] of runs) this.#cuts.add(last);
  }

  /** Adds to `headCuts` where this session cuts the heads that it shares. */
  tellHeadCuts(headCuts: HeadCuts): void {
    for (const { head, first, last, blocksBefore } of this.#claims) {
      const cuts = headCuts.get(head) ?? new Set();
      headCuts.set(head, cuts.add(blocksBefore + last - first + 1));
      for (const cut of this.#cuts) if (cut >= first && cut <= last) cuts.add(blocksBefore + cut - first + 1);
    }
  }

  /** Cuts the heads that this session shares where any session does. */
  addHeadCuts(headCuts: HeadCuts): void {
    for (const { head, first, last, blocksBefore } of this.#claims)
      for (const blocks of headCuts.get(head) ?? []) {
        const cut = first + blocks - blocksBefore - 1;
        if (cut >= first && cut <= last) this.#cuts.add(cut);
      }
    this.#sorted = [...this.#cuts].sort((a, b) => a - b);
  }

  /** Cuts a prompt with blocks of `blockTokens` tokens into pieces, and returns the last one; -1 where it has no block. */
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

  /** Returns the piece that ends with the block of this id; -1 where there is none. */
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
