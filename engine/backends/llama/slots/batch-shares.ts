/**
 * The smallest share of one prompt, in tokens, and of all prompts of a tenant that stands aside: smaller ones cost more
 * than they show.
 */
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

/** The prompt of one request that has a slot, while it is evaluated. */
export type PromptReading = {
  /** Corrects how many tokens of the prompt are left to evaluate, before the first piece. */
  expect(unread: number): void;
  /** Returns the size of the next piece of the prompt, in tokens; at least 1, and no more than is left of it. */
  pieceTokens(): number;
  /** Notes that a piece was evaluated, and for how many milliseconds that was waited for. */
  evaluated(tokens: number, ms: number): void;
  /** Notes that the prompt is evaluated: its answer has begun. A second call does nothing. */
  end(): void;
  /** Notes that the request gives its slot back, wherever it stands. A second call does nothing. */
  close(): void;
};

/** What one tenant has in the engine. */
type Tenant = {
  /** The number of slots that the tenant holds, for prompts and answers alike. */
  slots: number;
  /** The prompts of the tenant that are being evaluated. */
  readonly reading: Set<Progress>;
};

/** How far a prompt is evaluated. */
type Progress = {
  /** The tokens that are left to evaluate. */
  left: number;
  /** The tokens of the piece that was asked for, until it is evaluated. */
  asked: number;
  /** Whether the prompt stood aside with its last piece. */
  stoodAside: boolean;
};

/**
 * Says how prompts are cut into pieces. Tenants whose prompts are evaluated at the same time share each batch of the
 * engine evenly, and so do the prompts of one tenant: every batch is a step of each prompt, which shows that the engine
 * moves however many they are, and nobody's flood of prompts leaves less to others.
 *
 * A prompt that is alone gets whole batches. Beside other requests a batch is only as large as can be evaluated within
 * some 40 ms, by what the pieces before have taken, though no smaller than 32 tokens: all of them wait for its end.
 *
 * Where one more step brings a prompt to its first token, tenants that hold more slots than that prompt's stand aside for
 * this step, with 8 tokens among them: who asks little does not wait for who asks much. No prompt stands aside twice in a
 * row, so that the newcomers' steps cost it half of its speed at most, however many they are.
 */
export class BatchShares {
  readonly #batchTokens: number;
  readonly #tenants = new Map<string, Tenant>();
  /** The tokens of all pieces that have begun to be evaluated, those that are over included. */
  #begun = 0;
  /** The tokens of all pieces that have been evaluated. */
  #evaluated = 0;
  /** The tokens that are left to evaluate, of all prompts that are being evaluated. */
  #unread = 0;
  /** The tokens that a step beside other requests may have. */
  #stepTokens: number;

  /** Makes the shares of an engine that evaluates no prompt, and at most `batchTokens` tokens in a step. */
  constructor(batchTokens: number) {
    this.#batchTokens = batchTokens;
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
    const tenant = this.#tenants.get(name) ?? { slots: 0, reading: new Set() };
    this.#tenants.set(name, tenant);
    const progress: Progress = { left: unread, asked: 0, stoodAside: false };
    tenant.slots += 1;
    tenant.reading.add(progress);
    this.#unread += unread;
    let isOpen = true;
    let evaluatedBefore = 0;
    const end = () => {
      if (!tenant.reading.delete(progress)) return;
      this.#begun -= progress.asked;
      this.#unread -= progress.left;
    };
    return {
      expect: (tokens) => {
        this.#unread += tokens - progress.left;
        progress.left = tokens;
      },
      pieceTokens: () => {
        this.#begun -= progress.asked;
        progress.asked = Math.min(progress.left, this.#shareOf(tenant, progress));
        this.#begun += progress.asked;
        evaluatedBefore = this.#evaluated;
        return progress.asked;
      },
      evaluated: (tokens, ms) => {
        this.#begun += tokens - progress.asked;
        progress.asked = 0;
        progress.left -= tokens;
        this.#unread -= tokens;
        // Pieces of one batch end one after the other: what has ended since, and what has not, was evaluated beside it.
        this.#learn(this.#begun - evaluatedBefore, ms);
        this.#evaluated += tokens;
      },
      end,
      close: () => {
        end();
        if (!isOpen) return;
        isOpen = false;
        tenant.slots -= 1;
        if (tenant.slots === 0) this.#tenants.delete(name);
      },
    };
  }

  #shareOf(tenant: Tenant, progress: Progress): number {
    let [slots, reading] = [0, 0];
    for (const one of this.#tenants.values()) {
      slots += one.slots;
      if (one.reading.size > 0) reading += 1;
    }
    const step = slots > 1 ? this.#stepTokens : this.#batchTokens;
    progress.stoodAside = !progress.stoodAside && this.#hasLighter(tenant, step / reading);
    if (progress.stoodAside) return Math.max(1, Math.floor(MIN_SHARE_TOKENS / tenant.reading.size));
    return Math.max(MIN_SHARE_TOKENS, Math.floor(step / (reading * tenant.reading.size)));
  }

  /** Returns whether a tenant with fewer slots has a prompt of which no more than `tokens` are left. */
  #hasLighter({ slots }: Tenant, tokens: number): boolean {
    for (const other of this.#tenants.values()) {
      if (other.slots >= slots) continue;
      for (const { left } of other.reading) if (left <= tokens) return true;
    }
    return false;
  }

  /** Brings the size of steps nearer to what takes the time that is meant, where `tokens` took `ms` milliseconds. */
  #learn(tokens: number, ms: number): void {
    // What a much smaller step takes is mostly what every step takes, and says little of one of the right size.
    if (tokens < this.#stepTokens / 2) return;
    const change = Math.min(MAX_GROWTH, Math.max(MAX_CUT, PIECE_MS / Math.max(1, ms)));
    const learned = (this.#stepTokens + tokens * change) / 2;
    this.#stepTokens = Math.min(this.#batchTokens, Math.max(MIN_STEP_TOKENS, learned));
  }
}
