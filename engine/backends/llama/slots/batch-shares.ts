import { MAX_STRETCH } from "./turns.ts";

/** The smallest share of one prompt, in tokens: smaller ones cost more than they show. */
const MIN_SHARE_TOKENS = 2;
/**
 * The least that all prompts may have of a step together, in tokens: with less an engine hardly gets on with them. Behind a
 * long context so few take a processor as long as a hundred at the start of one.
 */
const MIN_STEP_TOKENS = 16;
/**
 * The longest that a piece of a prompt should take beside other requests, in milliseconds: so long does a newcomer wait for
 * its first step, and so long do running streams stand still.
 */
const PIECE_MS = 40;
/**
 * The shortest time that is asked of a piece, in milliseconds. On processors llama.cpp takes longer for 32 tokens than for
 * 64: for less time, more would be paid.
 */
const MIN_PIECE_MS = 20;
/** The most and the least by which one piece changes what is taken for the right size of a step. */
const MAX_GROWTH = 1.25;
const MAX_CUT = 0.25;

/** The prompt of one request that has a slot, while it is evaluated. */
export type PromptReading = {
  /** Corrects how many tokens of the prompt are left to evaluate, before the first piece. */
  expect(unread: number): void;
  /** Returns the size of the next piece of the prompt, in tokens; at least 1, and no more than is left of it. */
  pieceTokens(): number;
  /** Notes that so many tokens begin to be evaluated, in one step, at the monotonic time `nowMs`. */
  begins(tokens: number, nowMs: number): void;
  /** Notes that what has begun was evaluated at the monotonic time `nowMs`. */
  evaluated(nowMs: number): void;
  /** Notes that the prompt is evaluated: its answer has begun. A second call does nothing. */
  end(): void;
  /** Notes that the request gives its slot back, wherever it stands. A second call does nothing. */
  close(): void;
};

/** How far a prompt is evaluated. */
type Progress = {
  /** The tokens that are left to evaluate. */
  left: number;
  /** The tokens of the piece that is being evaluated; 0 between two pieces. */
  begun: number;
};

/**
 * Says how prompts are cut into pieces. Tenants whose prompts are evaluated at the same time share each batch of the
 * engine evenly, and so do the prompts of one tenant: every batch is a step of each prompt, which shows that the engine
 * moves however many they are, and nobody's flood of prompts leaves less to others.
 *
 * A prompt that is alone gets whole batches. Beside other requests a batch is only as large as can be evaluated within
 * some 40 ms, or within two rounds of others and 20 ms where those are known and shorter, by what the pieces before have
 * taken, though no smaller than 16 tokens: all of them wait for its end.
 * Which prompts have a piece in a batch is not decided here (`turns.ts`).
 */
export class BatchShares {
  readonly #batchTokens: number;
  readonly #lightMs: () => number | undefined;
  /** The prompts that are being evaluated, by their tenants. */
  readonly #reading = new Map<string, Set<Progress>>();
  /** The number of slots that requests hold, for prompts and answers alike. */
  #slots = 0;
  /** The tokens of all pieces that have begun to be evaluated, those that are over included. */
  #begun = 0;
  /** The tokens of all pieces that have been evaluated. */
  #evaluated = 0;
  /** The tokens that are left to evaluate, of all prompts that are being evaluated. */
  #unread = 0;
  /** The tokens that a step beside other requests may have. */
  #stepTokens: number;

  /**
   * Makes the shares of an engine that evaluates no prompt, and at most `batchTokens` tokens in a step. `lightMs` tells what
   * a round takes without those that keep the engine busy, in milliseconds; undefined where nobody knows.
   */
  constructor(batchTokens: number, lightMs: () => number | undefined = () => undefined) {
    this.#batchTokens = batchTokens;
    this.#lightMs = lightMs;
    this.#stepTokens = batchTokens;
  }

  /** The number of tokens that are left to evaluate, of all prompts that are being evaluated. */
  get unread(): number {
    return this.#unread;
  }

  /**
   * Notes that a request of the tenant has taken a slot, and that `unread` tokens of its prompt are to be evaluated.
   * Whoever calls closes the reading.
   */
  begin(name: string, unread: number): PromptReading {
    const mine = this.#reading.get(name) ?? new Set();
    this.#reading.set(name, mine);
    const progress: Progress = { left: unread, begun: 0 };
    mine.add(progress);
    this.#slots += 1;
    this.#unread += unread;
    let isOpen = true;
    let [beganMs, evaluatedBefore] = [0, 0];
    const end = () => {
      if (!mine.delete(progress)) return;
      if (mine.size === 0) this.#reading.delete(name);
      this.#begun -= progress.begun;
      this.#unread -= progress.left;
    };
    return {
      expect: (tokens) => {
        this.#unread += tokens - progress.left;
        progress.left = tokens;
      },
      pieceTokens: () => Math.min(progress.left, this.#shareOf(mine)),
      begins: (tokens, nowMs) => {
        this.#begun += tokens;
        progress.begun = tokens;
        [beganMs, evaluatedBefore] = [nowMs, this.#evaluated];
      },
      evaluated: (nowMs) => {
        const tokens = progress.begun;
        progress.begun = 0;
        progress.left -= tokens;
        this.#unread -= tokens;
        // Pieces of one batch end one after the other: what has ended since, and what has not, was evaluated beside it.
        this.#learn(this.#begun - evaluatedBefore, nowMs - beganMs);
        this.#evaluated += tokens;
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

  #shareOf(mine: ReadonlySet<Progress>): number {
    const step = this.#slots > 1 ? this.#stepTokens : this.#batchTokens;
    return Math.max(MIN_SHARE_TOKENS, Math.floor(step / (this.#reading.size * mine.size)));
  }

  /** Brings the size of steps nearer to what takes the time that is meant, where `tokens` took `ms` milliseconds. */
  #learn(tokens: number, ms: number): void {
    // What a much smaller step takes is mostly what every step takes, and says little of one of the right size.
    if (tokens < this.#stepTokens / 2) return;
    const meantMs = Math.min(PIECE_MS, Math.max(MIN_PIECE_MS, MAX_STRETCH * (this.#lightMs() ?? PIECE_MS)));
    const change = Math.min(MAX_GROWTH, Math.max(MAX_CUT, meantMs / Math.max(1, ms)));
    const learned = (this.#stepTokens + tokens * change) / 2;
    this.#stepTokens = Math.min(this.#batchTokens, Math.max(MIN_STEP_TOKENS, learned));
  }
}
