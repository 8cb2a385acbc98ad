import type { BlockRuns } from "./block-runs.ts";
import type { RecordedPiece } from "./recorded-session.ts";

/** The maximum blocks of a piece: longer runs are cut at its multiples. */
const MAX_BLOCKS = 64;

/** For each shared head, the block counts at which any session cuts it. */
export type HeadCuts = Map<string, Set<number>>;

/** A run of a session's blocks that other sessions share. */
type Claim = { readonly head: string; readonly first: number; readonly last: number; readonly blocksBefore: number };

/** Cuts the prompts of a session into pieces, so that each prompt and each cut position ends with a whole piece. */
export class PieceCutter {
  readonly #claims: Claim[] = [];
  /** The ids of the blocks with a cut after them. */
  readonly #cuts = new Set<number>();
  #sorted: readonly number[] | undefined;
  readonly #byLastBlock = new Map<number, number>();
  readonly #pieces: RecordedPiece[] = [];

  get pieces(): readonly RecordedPiece[] {
    return this.#pieces;
  }

  /** Marks the first `blocks` blocks of a prompt as those of a shared head, unless another head has them. */
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

  /** Cuts where the prompt's block ids are not successive. */
  cutRuns(runs: BlockRuns): void {
    for (const [, last] of runs) this.#cuts.add(last);
  }

  /** Adds this session's cuts of its shared heads to `headCuts`. */
  tellHeadCuts(headCuts: HeadCuts): void {
    for (const { head, first, last, blocksBefore } of this.#claims) {
      const cuts = headCuts.get(head) ?? new Set();
      headCuts.set(head, cuts.add(blocksBefore + last - first + 1));
      for (const cut of this.#cuts) if (cut >= first && cut <= last) cuts.add(blocksBefore + cut - first + 1);
    }
  }

  /** Cuts this session's shared heads where any session does. */
  addHeadCuts(headCuts: HeadCuts): void {
    for (const { head, first, last, blocksBefore } of this.#claims)
      for (const blocks of headCuts.get(head) ?? []) {
        const cut = first + blocks - blocksBefore - 1;
        if (cut >= first && cut <= last) this.#cuts.add(cut);
      }
    this.#sorted = [...this.#cuts].sort((a, b) => a - b);
  }

  /** Cuts a prompt with `blockTokens` tokens per block into pieces, and returns the last one; -1 without blocks. */
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

  /** Returns the piece that ends with this block; -1 if there is none. */
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
