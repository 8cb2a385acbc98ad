/** Context length, in embedding sizes, at which attention takes as long as all other operations (measured on a CPU). */
const EVEN_CONTEXT = 3;

/** Returns the cost of a token behind `before` others; a token at the start of a context costs 1. */
type TokenCost = (before: number) => number;

export function tokenCost(embeddingSize: number): TokenCost {
  return (before) => 1 + before / (EVEN_CONTEXT * embeddingSize);
}

/** The smallest chunk of one prompt, in tokens: the overhead of a smaller one exceeds its progress. */
const MIN_SHARE_TOKENS = 2;
/** The least cost of a prefill step, in tokens at the start of a context: prefill hardly advances with less. */
const MIN_STEP_COST = 16;
/** The least tokens of all prompts in a step: far into a context, larger chunks are hardly cheaper. */
const MIN_STEP_TOKENS = 4;
/** A rest of a prompt that costs this many tokens at the start of a context is read in one chunk. */
const SHORT_TOKENS = 32;
/** The target time of a chunk beside other requests, in milliseconds: streams pause that long. */
const PIECE_MS = 40;
/** The cost of the first step beside others, until an engine is measured, in tokens at the start of a context. */
const FIRST_STEP_TOKENS = 64;
/** How much larger a chunk may be while no other request runs: one may arrive at any moment. */
const ALONE = 2;
/** The least cost of a chunk alone, in tokens at the start of a context. */
const MIN_ALONE_TOKENS = 64;
/** The bounds of the factor by which one measurement changes the step size. */
const MAX_GROWTH = 1.25;
const MAX_CUT = 0.25;

export type PromptReading = {
  expect(read: number): void;
  pieceTokens(): number;
  begins(tokens: number, nowMs: number): void;
  evaluated(nowMs: number): void;
  /** Further calls do nothing. */
  end(): void;
  close(): void;
};

type Progress = {
  left: number;
  read: number;
  begun: number;
  cost: number;
};

/**
 * Sizes the prefill chunks: tenants share each batch evenly, and so do the prompts of one tenant. Beside other requests
 * a chunk takes about 40 ms by earlier measurements, alone twice that; a short prompt is read in one chunk.
 */
export class BatchShares {
  readonly #batchTokens: number;
  readonly #tokenCost: TokenCost;
  readonly #reading = new Map<string, Set<Progress>>();
  #slots = 0;
  #begun = 0;
  #evaluated = 0;
  unread = 0;
  #stepCost: number;

  constructor(batchTokens: number, tokenCost: TokenCost) {
    this.#batchTokens = batchTokens;
    this.#tokenCost = tokenCost;
    this.#stepCost = Math.min(batchTokens, FIRST_STEP_TOKENS);
  }

  /** The prompt has `tokens`, `read` of them cached. The caller closes the result. */
  begin(name: string, tokens: number, read = 0): PromptReading {
    const mine = this.#reading.get(name) ?? new Set();
    this.#reading.set(name, mine);
    const progress: Progress = { left: tokens - read, read, begun: 0, cost: 0 };
    mine.add(progress);
    this.#slots += 1;
    this.unread += progress.left;
    let isOpen = true;
    let [beganMs, evaluatedBefore] = [0, 0];
    const end = () => {
      if (!mine.delete(progress)) return;
      if (mine.size === 0) this.#reading.delete(name);
      this.#begun -= progress.cost;
      this.unread -= progress.left;
    };
    return {
      expect: (now) => {
        const more = progress.read - now;
        this.unread += more;
        progress.left += more;
        progress.read = now;
      },
      pieceTokens: () => this.#pieceOf(progress, mine),
      begins: (piece, nowMs) => {
        progress.begun = piece;
        progress.cost = piece * this.#tokenCost(progress.read);
        this.#begun += progress.cost;
        [beganMs, evaluatedBefore] = [nowMs, this.#evaluated];
      },
      evaluated: (nowMs) => {
        const { begun, cost, left } = progress;
        progress.begun = 0;
        progress.cost = 0;
        // Chunks of one batch end one after the other: a chunk that has ended since this one began, or has not ended,
        // was computed beside it.
        const evaluated = this.#begun - evaluatedBefore;
        // The end of a prompt is computed before chunks of others that began with it (`runtime/batch-decoder.ts`).
        if (begun < left || evaluated <= cost) this.#learn(evaluated, nowMs - beganMs, progress.read);
        progress.left -= begun;
        progress.read += begun;
        this.unread -= begun;
        this.#evaluated += cost;
      },
      end,
      close: () => {
        end();
        if (!isOpen) return;
        isOpen = false;
        this.#slots -= 1;
      },
    };
  }

  #pieceOf({ left, read }: Progress, ofTenant: ReadonlySet<Progress>): number {
    const cost = this.#tokenCost(read);
    if (left * cost <= SHORT_TOKENS) return left;
    const stepCost = this.#slots > 1 ? this.#stepCost : Math.max(MIN_ALONE_TOKENS, ALONE * this.#stepCost);
    const step = Math.min(this.#batchTokens, Math.max(MIN_STEP_TOKENS, stepCost / cost));
    return Math.min(left, Math.max(MIN_SHARE_TOKENS, Math.floor(step / (this.#reading.size * ofTenant.size))));
  }

  #learn(cost: number, ms: number, before: number): void {
    // The time of a much smaller step is mostly constant overhead, and does not predict that of a full one.
    if (cost < this.#stepCost / 2) return;
    const change = Math.min(MAX_GROWTH, Math.max(MAX_CUT, PIECE_MS / Math.max(1, ms)));
    const learned = (this.#stepCost + cost * change) / 2;
    this.#stepCost = Math.min(this.#batchTokens * this.#tokenCost(before), Math.max(MIN_STEP_COST, learned));
  }
}
