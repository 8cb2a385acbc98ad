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
  /** The measured speed of the engine, by which the tokens read of a prompt are estimated. */
  readonly speed = new PrefillSpeed();
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
    const prompts = this.#promptsOf(outlook.rank ?? 0);
    for (const before of prompts.unread) before.besideTokens += outlook.tokens - outlook.cachedTokens;
    const prompt = new LedgerPrompt(outlook, prompts, this.speed, this.#nowMs);
    prompts.unread.add(prompt);
    prompts.all.add(prompt);
    beginFirst(prompts);
    return prompt;
  }

  #promptsOf(rank: number): RankPrompts {
    this.#ranks[rank] ??= { unread: new Set(), all: new Set() };
    return this.#ranks[rank];
  }
}

/** The prompts of a rank, oldest first: those that it has yet to read, and those whose calls have not ended. */
type RankPrompts = { readonly unread: Set<LedgerPrompt>; readonly all: Set<LedgerPrompt> };

function unreadOf(prompts: Iterable<LedgerPrompt>): number {
  let sum = 0;
  for (const prompt of prompts) sum += prompt.unreadTokens;
  return sum;
}

function beginFirst({ unread: [first] }: { readonly unread: Iterable<LedgerPrompt> }): void {
  first?.begin();
}

export class LedgerPrompt {
  readonly outlook: PromptOutlook;
  /** Whether the engine had no other prompt to read when it was sent. */
  readonly isAlone: boolean;
  /** The uncached tokens of the prompts that were sent while this one was unread. */
  besideTokens = 0;
  readonly #prompts: RankPrompts;
  readonly #speed: PrefillSpeed;
  readonly #nowMs: () => number;
  readonly #sentMs: number;
  #begunMs: number | undefined;
  #readMs: number | undefined;
  /** The tokens read so far, cached ones included, as the engine reported; undefined without a report. */
  #reportedTokens: number | undefined;

  constructor(outlook: PromptOutlook, prompts: RankPrompts, speed: PrefillSpeed, nowMs: () => number) {
    this.outlook = outlook;
    this.isAlone = prompts.unread.size === 0;
    this.#prompts = prompts;
    this.#speed = speed;
    this.#nowMs = nowMs;
    this.#sentMs = nowMs();
  }

  get rank(): number | undefined {
    return this.outlook.rank;
  }

  /** The number of earlier prompts that the engine has yet to read; 0 once this one is begun. */
  get position(): number {
    return this.#begunMs === undefined ? Math.max(0, [...this.#prompts.unread].indexOf(this)) : 0;
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
    const seconds = (this.#nowMs() - this.#begunMs) / 1_000;
    return Math.min(tokens, cachedTokens + Math.floor(seconds * (this.#speed.tokensPerSecond ?? 0)));
  }

  get unreadTokens(): number {
    const { tokens, cachedTokens } = this.outlook;
    return tokens - Math.max(cachedTokens, this.readTokens);
  }

  begin(): void {
    this.#begunMs ??= this.#nowMs();
  }

  /** Records the engine's report of the tokens that it has read, cached ones included. */
  reported(readTokens: number): void {
    this.begin();
    this.#reportedTokens = Math.min(this.outlook.tokens, readTokens);
  }

  /** Records the first token of the answer: the prompt is read. Later calls, one a token, do nothing. */
  read(): void {
    if (this.#readMs !== undefined) return;
    this.#readMs = this.#nowMs();
    this.#leaveUnread();
  }

  /** Removes the prompt: its call has ended. Idempotent. */
  gone(): void {
    this.#leaveUnread();
    this.#prompts.all.delete(this);
  }

  #leaveUnread(): void {
    if (this.#prompts.unread.delete(this)) beginFirst(this.#prompts);
  }

  /** Returns the times of the prompt up to the first token, or to now. */
  get times(): ReadTimes {
    const endMs = this.#readMs ?? this.#nowMs();
    const allMs = endMs - this.#sentMs;
    // An engine that shares its steps has read it beside others, before or behind it.
    const uncachedTokens = this.outlook.tokens - this.outlook.cachedTokens;
    if (this.#begunMs === undefined || this.besideTokens > MOST_BESIDE * uncachedTokens) return { prefillMs: allMs };
    const queueMs = this.#begunMs - this.#sentMs;
    return { queueMs, prefillMs: allMs - queueMs };
  }
}
