import { PrefillSpeed } from "../../prefill-speed.ts";

/**
 * The share of a prompt's uncached tokens that later prompts may have beside it, for its time to count as its own: an
 * engine may share its steps among prompts.
 */
const MOST_BESIDE = 0.1;

export type PromptOutlook = {
  readonly tokens: number;
  /**
   * The tokens that the engine will find in its cache: exact by its KV events, else estimated by the last answer of the
   * conversation; 0 for a new conversation.
   */
  readonly cachedTokens: number;
  /** The data-parallel rank that gets the prompt; undefined for an engine with one, or that picks it. */
  readonly rank?: number | undefined;
};

/** The times of a prompt that was read. `queueMs` is absent if the wait cannot be separated from the reading. */
export type ReadTimes = { readonly queueMs?: number; readonly prefillMs: number };

/**
 * The prompts that a node has sent to its engine and that the engine has yet to read: those sent, begun and read (the
 * first token has come). The node is the engine's only client, so that these are all of its prompts. Each rank begins
 * its own in the order in which they came.
 */
export class PromptLedger {
  readonly #nowMs: () => number;
  readonly #speed = new PrefillSpeed();
  readonly #ranks: RankPrompts[] = [];

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** The uncached tokens of all prompts that the engine has yet to read. */
  get unreadTokens(): number {
    return this.#ranks.reduce((sum, { unread }) => sum + unreadOf(unread), 0);
  }

  loadOf(rank: number): { readonly unreadTokens: number; readonly requests: number } {
    const { unread, all } = this.#promptsOf(rank);
    return { unreadTokens: unreadOf(unread), requests: all.size };
  }

  /** Adds a prompt that goes to the engine now. The caller ends it with `gone`. */
  sent(outlook: PromptOutlook): LedgerPrompt {
    const { unread, all } = this.#promptsOf(outlook.rank ?? 0);
    for (const before of unread) before.besideTokens += outlook.tokens - outlook.cachedTokens;
    const beginFirst = () => {
      const [first] = unread;
      first?.begin();
    };
    const prompt = new LedgerPrompt(outlook, {
      nowMs: this.#nowMs,
      isAlone: unread.size === 0,
      speed: this.#speed,
      positionOf: (one) => [...unread].indexOf(one),
      onRead: (one) => {
        if (unread.delete(one)) beginFirst();
      },
      onGone: (one) => all.delete(one),
    });
    unread.add(prompt);
    all.add(prompt);
    beginFirst();
    return prompt;
  }

  #promptsOf(rank: number): RankPrompts {
    const known = this.#ranks[rank];
    if (known) return known;
    const prompts = { unread: new Set<LedgerPrompt>(), all: new Set<LedgerPrompt>() };
    this.#ranks[rank] = prompts;
    return prompts;
  }
}

/** The prompts of a rank, oldest first: those that it has yet to read, and those whose calls have not ended. */
type RankPrompts = { readonly unread: Set<LedgerPrompt>; readonly all: Set<LedgerPrompt> };

function unreadOf(prompts: Iterable<LedgerPrompt>): number {
  let sum = 0;
  for (const prompt of prompts) sum += prompt.unreadTokens;
  return sum;
}

type PromptParts = {
  readonly nowMs: () => number;
  readonly isAlone: boolean;
  readonly speed: PrefillSpeed;
  readonly positionOf: (prompt: LedgerPrompt) => number;
  readonly onRead: (prompt: LedgerPrompt) => void;
  readonly onGone: (prompt: LedgerPrompt) => void;
};

export class LedgerPrompt {
  readonly outlook: PromptOutlook;
  /** Whether the engine had no other prompt to read when it was sent. */
  readonly isAlone: boolean;
  /** The uncached tokens of the prompts that were sent while this one was unread. */
  besideTokens = 0;
  readonly #parts: PromptParts;
  readonly #sentMs: number;
  #begunMs: number | undefined;
  #readMs: number | undefined;
  /** The tokens read so far, cached ones included, as the engine reported; undefined without a report. */
  #reportedTokens: number | undefined;

  constructor(outlook: PromptOutlook, parts: PromptParts) {
    this.outlook = outlook;
    this.isAlone = parts.isAlone;
    this.#parts = parts;
    this.#sentMs = parts.nowMs();
  }

  get rank(): number | undefined {
    return this.outlook.rank;
  }

  /** The number of earlier prompts that the engine has yet to read; 0 once this one is begun. */
  get position(): number {
    return this.#begunMs === undefined ? Math.max(0, this.#parts.positionOf(this)) : 0;
  }

  /**
   * The tokens that the engine has read, cached ones included; 0 while it waits. Without the engine's word it follows
   * from the measured speed.
   */
  get readTokens(): number {
    const { tokens, cachedTokens } = this.outlook;
    if (this.#readMs !== undefined) return tokens;
    if (this.#reportedTokens !== undefined) return this.#reportedTokens;
    if (this.#begunMs === undefined) return 0;
    const seconds = (this.#parts.nowMs() - this.#begunMs) / 1_000;
    return Math.min(tokens, cachedTokens + Math.floor(seconds * (this.#parts.speed.tokensPerSecond ?? 0)));
  }

  get unreadTokens(): number {
    const { tokens, cachedTokens } = this.outlook;
    return tokens - Math.max(cachedTokens, this.readTokens);
  }

  begin(): void {
    this.#begunMs ??= this.#parts.nowMs();
  }

  /** Records the engine's report of the tokens that it has read, cached ones included. */
  reported(readTokens: number): void {
    this.begin();
    this.#reportedTokens = Math.min(this.outlook.tokens, readTokens);
  }

  /** Records the first token of the answer: the prompt is read. Later calls, one a token, do nothing. */
  read(): void {
    if (this.#readMs !== undefined) return;
    this.#readMs = this.#parts.nowMs();
    this.#parts.onRead(this);
  }

  /** Removes the prompt: its call has ended. Idempotent. */
  gone(): void {
    this.#parts.onRead(this);
    this.#parts.onGone(this);
  }

  /** Returns the times of the prompt up to the first token, or to now. */
  get times(): ReadTimes {
    const endMs = this.#readMs ?? this.#parts.nowMs();
    const allMs = endMs - this.#sentMs;
    // An engine that shares its steps has read it beside others, before or behind it.
    const uncachedTokens = this.outlook.tokens - this.outlook.cachedTokens;
    if (this.#begunMs === undefined || this.besideTokens > MOST_BESIDE * uncachedTokens) return { prefillMs: allMs };
    const queueMs = this.#begunMs - this.#sentMs;
    return { queueMs, prefillMs: allMs - queueMs };
  }

  /** Adds the prompt to the measured speed, once its cached tokens are known. */
  measured(cachedTokens: number): void {
    const { queueMs, prefillMs } = this.times;
    this.#parts.speed.add({
      uncachedTokens: this.outlook.tokens - cachedTokens,
      seconds: prefillMs / 1_000,
      queueSeconds: queueMs === undefined ? undefined : queueMs / 1_000,
    });
  }
}
