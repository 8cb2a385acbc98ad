/** The smallest share of one prompt, in tokens: smaller ones cost more than they show. */
const MIN_SHARE_TOKENS = 8;
/** The least that all prompts may have of a step together, in tokens: with less an engine hardly gets on with them. */
const MIN_STEP_TOKENS = 32;
/**
 * The time that a piece of a prompt should take beside other requests, in milliseconds: so long does a newcomer wait for
 * its first step, and so long do running streams stand still.
 */
const PIECE_MS = 40;
/** The most and the least by which one piece changes what is taken for the right size of a step. */
const MAX_GROWTH = 1.25;
const MAX_CUT = 0.25;

/** What the shares of batches depend on. */
export type BatchSharesOptions = {
  /** The most tokens of a batch of the engine. */
  readonly batchTokens: number;
  /** Returns whether more than one request has a slot, so that steps are waited for by others than the one read. */
  readonly hasCompany: () => boolean;
};

/** The prompt of one request while it is evaluated. */
export type PromptReading = {
  /** Returns the size of the next piece of the prompt, in tokens; at least 8. */
  pieceTokens(): number;
  /** Notes that a piece was evaluated, and for how many milliseconds that was waited for. */
  evaluated(tokens: number, ms: number): void;
  /** Notes that the prompt is evaluated, or given up. A second call does nothing. */
  end(): void;
};

/**
 * Says how prompts are cut into pieces. Tenants whose prompts are evaluated at the same time share each batch of the
 * engine evenly, and so do the prompts of one tenant: every batch is a step of each prompt, which shows that the engine
 * moves however many they are, and nobody's flood of prompts leaves less to others.
 *
 * A prompt that is alone gets whole batches. Beside other requests a batch is only as large as can be evaluated within
 * some 40 ms, by what the pieces before have taken, though no smaller than 32 tokens: all of them wait for its end.
 */
export class BatchShares {
  readonly #options: BatchSharesOptions;
  /** The number of prompts of each tenant that are being evaluated. */
  readonly #reading = new Map<string, number>();
  /** The tokens of all pieces that have begun to be evaluated, those that are over included. */
  #begun = 0;
  /** The tokens of all pieces that have been evaluated. */
  #evaluated = 0;
  /** The tokens that are left to evaluate, of all prompts that are being evaluated. */
  #unread = 0;
  /** The tokens that a step beside other requests may have. */
  #stepTokens: number;

  /** Makes the shares of an engine that evaluates no prompt. */
  constructor(options: BatchSharesOptions) {
    this.#options = options;
    this.#stepTokens = options.batchTokens;
  }

  /** The number of tokens that are left to evaluate, of all prompts that are being evaluated. */
  get unread(): number {
    return this.#unread;
  }

  /**
   * Notes that a prompt of the tenant is being evaluated, of which `unread` tokens are left. Whoever calls ends the
   * reading.
   */
  begin(tenant: string, unread: number): PromptReading {
    let left = unread;
    this.#unread += left;
    this.#reading.set(tenant, (this.#reading.get(tenant) ?? 0) + 1);
    let isOver = false;
    let asked = 0;
    let evaluatedBefore = 0;
    return {
      pieceTokens: () => {
        this.#begun -= asked;
        asked = this.#shareOf(tenant);
        this.#begun += asked;
        evaluatedBefore = this.#evaluated;
        return asked;
      },
      evaluated: (tokens, ms) => {
        this.#begun += tokens - asked;
        asked = 0;
        left -= tokens;
        this.#unread -= tokens;
        // Pieces of one batch end one after the other: what has ended since, and what has not, was evaluated beside it.
        this.#learn(this.#begun - evaluatedBefore, ms);
        this.#evaluated += tokens;
      },
      end: () => {
        if (isOver) return;
        isOver = true;
        this.#begun -= asked;
        this.#unread -= left;
        const others = (this.#reading.get(tenant) ?? 0) - 1;
        if (others > 0) this.#reading.set(tenant, others);
        else this.#reading.delete(tenant);
      },
    };
  }

  #shareOf(tenant: string): number {
    const { batchTokens, hasCompany } = this.#options;
    const step = hasCompany() ? this.#stepTokens : batchTokens;
    const prompts = this.#reading.size * (this.#reading.get(tenant) ?? 1);
    return Math.max(MIN_SHARE_TOKENS, Math.floor(step / prompts));
  }

  /** Brings the size of steps nearer to what takes the time that is meant, where `tokens` took `ms` milliseconds. */
  #learn(tokens: number, ms: number): void {
    const change = Math.min(MAX_GROWTH, Math.max(MAX_CUT, PIECE_MS / Math.max(1, ms)));
    const learned = (this.#stepTokens + tokens * change) / 2;
    this.#stepTokens = Math.min(this.#options.batchTokens, Math.max(MIN_STEP_TOKENS, learned));
  }
}
