import type { TokenCost } from "./token-cost.ts";

/** The smallest share of one prompt, in tokens: smaller ones cost more than they show. */
const MIN_SHARE_TOKENS = 2;
/**
 * The least that a step of prompts may cost, in tokens at the start of a context: with less an engine hardly gets on with
 * them.
 */
const MIN_STEP_COST = 16;
/**
 * The least that all prompts may have of a step together, in tokens. Behind 3,500 others 16 of them take a processor as long
 * as a hundred at the start of a context, and more at once are hardly cheaper there.
 */
const MIN_STEP_TOKENS = 4;
/**
 * What is left of a prompt is read at once where it costs no more than so many tokens at the start of a context: each
 * further step of a newcomer would be a round of all others.
 */
const SHORT_TOKENS = 32;
/**
 * The longest that a piece of a prompt should take beside other requests, in milliseconds: so long does a newcomer wait for
 * its first step, and so long do running streams stand still.
 */
const PIECE_MS = 40;
/**
 * What a step beside other requests may cost before any was measured, in tokens at the start of a context: the first long
 * prompt is not to hold up everybody for a whole batch of a slow engine, and a quick one is soon known.
 */
const FIRST_STEP_TOKENS = 64;
/**
 * How many times as long as beside other requests a piece of a prompt that is alone may take: whoever comes meanwhile waits
 * for its end, and smaller pieces are read hardly slower.
 */
const ALONE = 2;
/**
 * The least that a prompt that is alone has of a step, in tokens at the start of a context: a slow processor reads fewer at
 * once for more than they are worth.
 */
const MIN_ALONE_TOKENS = 64;
/** The most and the least by which one piece changes what is taken for the right size of a step. */
const MAX_GROWTH = 1.25;
const MAX_CUT = 0.25;

/** The prompt of one request that has a slot, while it is evaluated. */
export type PromptReading = {
  /** Corrects how many tokens of the prompt need not be evaluated, before the first piece. */
  expect(read: number): void;
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
  /** The tokens that are left to evaluate, and those before them. */
  left: number;
  read: number;
  /** The tokens of the piece that is being evaluated, and what they cost; 0 between two pieces. */
  begun: number;
  cost: number;
};

/**
 * Says how prompts are cut into pieces. Tenants whose prompts are evaluated at the same time share each batch of the
 * engine evenly, and so do the prompts of one tenant: every batch is a step of each prompt, which shows that the engine
 * moves however many they are, and nobody's flood of prompts leaves less to others.
 *
 * Beside other requests a batch is only as large as can be evaluated within some 40 ms, by what the pieces before have
 * taken, though no smaller than what 16 tokens at the start of a context cost, and 4 tokens: all of them wait for its end. A prompt that is alone gets twice that, as
 * others may come at any moment, and 64 tokens at least. A newcomer's short prompt is not cut up because so few of another
 * one take as long, behind thousands of others.
 */
export class BatchShares {
  readonly #batchTokens: number;
  readonly #tokenCost: TokenCost;
  /** The prompts that are being evaluated, by their tenants. */
  readonly #reading = new Map<string, Set<Progress>>();
  /** The number of slots that requests hold, for prompts and answers alike. */
  #slots = 0;
  /** The cost of all pieces that have begun to be evaluated, those that are over included. */
  #begun = 0;
  /** The cost of all pieces that have been evaluated. */
  #evaluated = 0;
  /** The tokens that are left to evaluate, of all prompts that are being evaluated. */
  #unread = 0;
  /** What a step beside other requests may cost: as much as so many tokens at the start of a context. */
  #stepCost: number;

  /**
   * Makes the shares of an engine that evaluates no prompt, and at most `batchTokens` tokens in a step; `tokenCost` is
   * that of its model.
   */
  constructor(batchTokens: number, tokenCost: TokenCost) {
    this.#batchTokens = batchTokens;
    this.#tokenCost = tokenCost;
    this.#stepCost = Math.min(batchTokens, FIRST_STEP_TOKENS);
  }

  /** The number of tokens that are left to evaluate, of all prompts that are being evaluated. */
  get unread(): number {
    return this.#unread;
  }

  /**
   * Notes that a request of the tenant has taken a slot, and that the tokens of its prompt are to be evaluated, without the
   * first `read` of them. Whoever calls closes the reading.
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
        // Pieces of one batch end one after the other: what has ended since, and what has not, was evaluated beside it.
        const evaluated = this.#begun - evaluatedBefore;
        // But the end of a prompt comes before what others have begun with it (`runtime/batch-decoder.ts`).
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

  /** Returns the size of the next piece of a prompt, which is one of its tenant's. */
  #pieceOf({ left, read }: Progress, ofTenant: ReadonlySet<Progress>): number {
    const cost = this.#tokenCost(read);
    if (left * cost <= SHORT_TOKENS) return left;
    const stepCost = this.#slots > 1 ? this.#stepCost : Math.max(MIN_ALONE_TOKENS, ALONE * this.#stepCost);
    const step = Math.min(this.#batchTokens, Math.max(MIN_STEP_TOKENS, stepCost / cost));
    return Math.min(left, Math.max(MIN_SHARE_TOKENS, Math.floor(step / (this.#reading.size * ofTenant.size))));
  }

  /** Brings the cost of steps nearer to what takes the time that is meant, where `cost` took `ms` milliseconds. */
  #learn(cost: number, ms: number, before: number): void {
    // What a much smaller step takes is mostly what every step takes, and says little of one of the right size.
    if (cost < this.#stepCost / 2) return;
    const change = Math.min(MAX_GROWTH, Math.max(MAX_CUT, PIECE_MS / Math.max(1, ms)));
    const learned = (this.#stepCost + cost * change) / 2;
    this.#stepCost = Math.min(this.#batchTokens * this.#tokenCost(before), Math.max(MIN_STEP_COST, learned));
  }
}
