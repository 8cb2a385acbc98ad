import type { TokenCost } from "./token-cost.ts";

/** The smallest chunk of one prompt, in tokens: the overhead of a smaller one exceeds its progress. */
const MIN_SHARE_TOKENS = 2;
/** The least cost of a prefill step, in tokens at the start of a context: prefill hardly advances with less. */
const MIN_STEP_COST = 16;
/**
 * The least number of tokens of all prompts in a step. Behind 3,500 tokens, 16 tokens take a CPU as long as a hundred
 * at the start of a context, and larger chunks are hardly cheaper there.
 */
const MIN_STEP_TOKENS = 4;
/**
 * The rest of a prompt is read in one chunk if it costs no more than this many tokens at the start of a context: each
 * further chunk would be another round for all other requests.
 */
const SHORT_TOKENS = 32;
/**
 * The target time of a prefill chunk beside other requests, in milliseconds: a new request waits that long for its
 * first step, and running streams pause that long.
 */
const PIECE_MS = 40;
/**
 * The initial cost of a step beside other requests, in tokens at the start of a context. The first long prompt must not
 * block all others for a whole batch of a slow engine, and a fast engine is soon measured.
 */
const FIRST_STEP_TOKENS = 64;
/**
 * The factor by which a chunk may be larger while no other request runs. A new request waits for its end, and smaller
 * chunks are hardly slower.
 */
const ALONE = 2;
/**
 * The least cost of a chunk while no other request runs, in tokens at the start of a context: a slow CPU gains too
 * little from smaller ones.
 */
const MIN_ALONE_TOKENS = 64;
/** The bounds of the factor by which one measurement changes the step size. */
const MAX_GROWTH = 1.25;
const MAX_CUT = 0.25;

/** The prefill of one request that holds a slot. */
export type PromptReading = {
  /** Corrects the number of cached tokens of the prompt, before the first chunk. */
  expect(read: number): void;
  /** Returns the size of the next chunk, in tokens, from 1 to the rest of the prompt. */
  pieceTokens(): number;
  /** Records the start of a chunk of `tokens` tokens, in one step, at the monotonic time `nowMs`. */
  begins(tokens: number, nowMs: number): void;
  /** Records the end of the started chunk at the monotonic time `nowMs`. */
  evaluated(nowMs: number): void;
  /** Records the end of the prefill: the answer has started. Further calls do nothing. */
  end(): void;
  /** Records the release of the slot, in any state. Further calls do nothing. */
  close(): void;
};

type Progress = {
  /** The remaining tokens, and those before them. */
  left: number;
  read: number;
  /** The tokens and the cost of the running chunk; 0 between two chunks. */
  begun: number;
  cost: number;
};

/**
 * Sizes the prefill chunks. Concurrent prefills of different tenants share each batch evenly, and so do the prompts of
 * one tenant: every batch advances each prompt, which shows progress to all callers, and a tenant with many prompts
 * takes no share of others.
 *
 * Beside other requests, a chunk is sized by earlier measurements to take about 40 ms, because all others wait for its
 * end, but no less than the cost of 16 tokens at the start of a context, and 4 tokens. While no other request runs, a
 * chunk is twice that, as another may arrive at any moment, and at least 64 tokens. A short prompt is read in one chunk
 * also while long contexts make steps of other prompts small.
 */
export class BatchShares {
  readonly #batchTokens: number;
  readonly #tokenCost: TokenCost;
  readonly #reading = new Map<string, Set<Progress>>();
  /** The number of slots in use, for prefill and decode alike. */
  #slots = 0;
  /** The cost of all started chunks, finished ones included. */
  #begun = 0;
  #evaluated = 0;
  /** The remaining tokens of all running prefills. */
  #unread = 0;
  /** The cost of a step beside other requests, in tokens at the start of a context. */
  #stepCost: number;

  /** `batchTokens` is the most tokens in a step; `tokenCost` is that of the model. */
  constructor(batchTokens: number, tokenCost: TokenCost) {
    this.#batchTokens = batchTokens;
    this.#tokenCost = tokenCost;
    this.#stepCost = Math.min(batchTokens, FIRST_STEP_TOKENS);
  }

  get unread(): number {
    return this.#unread;
  }

  /**
   * Records that a request of the tenant has taken a slot and starts to prefill `tokens` tokens, of which the first
   * `read` are cached. The caller closes the result.
   */
  begin(name: string, tokens: number, read = 0): PromptReading {
    const mine = this.#reading.get(name) ?? new Set();
    this.#reading.set(name, mine);
    const progress: Progress = { left: tokens - read, read, begun: 0, cost: 0 };
    mine.add(progress);
    this.#slots += 1;
    this.#unread += progress.left;
    let isOpen = true;
    let [beganMs, evaluatedBefore] = [0, 0];
    const end = () => {
      if (!mine.delete(progress)) return;
      if (mine.size === 0) this.#reading.delete(name);
      this.#begun -= progress.cost;
      this.#unread -= progress.left;
    };
    return {
      expect: (now) => {
        const more = progress.read - now;
        this.#unread += more;
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
        this.#unread -= begun;
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

  /** Returns the size of the next chunk of a prompt, which is one of `ofTenant`. */
  #pieceOf({ left, read }: Progress, ofTenant: ReadonlySet<Progress>): number {
    const cost = this.#tokenCost(read);
    if (left * cost <= SHORT_TOKENS) return left;
    const stepCost = this.#slots > 1 ? this.#stepCost : Math.max(MIN_ALONE_TOKENS, ALONE * this.#stepCost);
    const step = Math.min(this.#batchTokens, Math.max(MIN_STEP_TOKENS, stepCost / cost));
    return Math.min(left, Math.max(MIN_SHARE_TOKENS, Math.floor(step / (this.#reading.size * ofTenant.size))));
  }

  /** Adjusts the step size towards the target time, after a cost of `cost` took `ms` milliseconds. */
  #learn(cost: number, ms: number, before: number): void {
    // The time of a much smaller step is mostly constant overhead, and does not predict that of a full one.
    if (cost < this.#stepCost / 2) return;
    const change = Math.min(MAX_GROWTH, Math.max(MAX_CUT, PIECE_MS / Math.max(1, ms)));
    const learned = (this.#stepCost + cost * change) / 2;
    this.#stepCost = Math.min(this.#batchTokens * this.#tokenCost(before), Math.max(MIN_STEP_COST, learned));
  }
}
