import type { CachedPart } from "../../../engine/backends/openai-compatible/kv-events/block-tree.ts";
import { LOAD_SHARE } from "../../../engine/backends/openai-compatible/kv-events/rank-pick.ts";
import type { EventQueue } from "./event-queue.ts";
import type { HeldPieces, PieceCaches } from "./piece-cache.ts";
import type { Prompt } from "./traffic.ts";

export const PREFILL_TOKENS_PER_SECOND = 12_000;
/** The decode time per token in milliseconds, independent of concurrent answers. */
const DECODE_MS_PER_TOKEN = 20;
/** The interval of progress messages of a prefill, in milliseconds. */
const PROGRESS_MS = 500;

export type NodeReport = {
  readonly running: number;
  readonly waiting: number;
  readonly queuedUncachedTokens: number;
  readonly kvUse: number;
  /** The observed retention of unused cache entries, in milliseconds; undefined before the first eviction. */
  readonly retentionMs: number | undefined;
  /** Undefined where the node reports no speed of its own. */
  readonly prefillTokensPerSecond?: number | undefined;
  readonly decodeTokensPerSecond?: number | undefined;
};

export type Job = {
  readonly prompt: Prompt;
  readonly onStarted: (cachedTokens: number) => void;
  readonly onProgress: (prefilledTokens: number) => void;
  readonly onFirstToken: () => void;
  /** Called when the answer is complete; its prefill took `prefillMs` milliseconds. */
  readonly onFinished: (prefillMs: number) => void;
};

/** Time integrals since the start, in milliseconds: of requests on a node, and of its prefilling. */
export type NodeUse = { readonly requestMs: number; readonly prefillMs: number };

/** The caches of all nodes, and the host memory behind them; undefined for none. */
export type CacheTiers = { readonly caches: PieceCaches; readonly lower: PieceCaches | undefined };

export type ReplayNodeParts = {
  readonly time: EventQueue;
  readonly tiers: CacheTiers;
  readonly cache: number;
  readonly prefillsAtOnce: number;
  readonly onChange: () => void;
};

type Prefill = {
  readonly job: Job;
  readonly beganMs: number;
  leftTokens: number;
};

/** A node in virtual time: it prefills several prompts at once, in order of arrival, and decodes concurrently. */
export class ReplayNode {
  readonly #parts: ReplayNodeParts;
  readonly #queue: { readonly job: Job; readonly uncachedTokens: number }[] = [];
  #queuedTokens = 0;
  #prefills: readonly Prefill[] = [];
  #prefillsSinceMs = 0;
  #decoding = 0;
  #runningTokens = 0;
  #changedMs = 0;
  #requestMs = 0;
  #prefillMs = 0;

  constructor(parts: ReplayNodeParts) {
    this.#parts = parts;
  }

  get report(): NodeReport {
    return {
      running: this.#decoding + this.#prefills.length,
      waiting: this.#queue.length,
      queuedUncachedTokens: this.#prefills.reduce((sum, prefill) => sum + this.#unread(prefill), this.#queuedTokens),
      kvUse: Math.min(1, this.#runningTokens / this.#parts.tiers.caches.capacity),
      retentionMs: this.#parts.tiers.caches.retentionMs(this.#parts.cache),
    };
  }

  get use(): NodeUse {
    this.#account();
    return { requestMs: this.#requestMs, prefillMs: this.#prefillMs };
  }

  submit(job: Job): void {
    this.#account();
    const uncachedTokens = this.#uncached(job.prompt);
    this.#queue.push({ job, uncachedTokens });
    this.#queuedTokens += uncachedTokens;
    this.#prefillNext();
    this.#parts.onChange();
  }

  #prefillNext(): void {
    const next = this.#prefills.length < this.#parts.prefillsAtOnce ? this.#queue.shift() : undefined;
    if (!next) return;
    const { job } = next;
    const { prompt } = job;
    this.#queuedTokens -= next.uncachedTokens;
    const uncachedTokens = this.#uncached(prompt);
    this.#runningTokens += prompt.tokens;
    job.onStarted(cachedIn(this.#parts.tiers, this.#parts.cache, prompt.last).tokens);
    // Even a fully cached prompt takes a step.
    const prefill = { job, beganMs: this.#parts.time.nowMs(), leftTokens: Math.max(1, uncachedTokens) };
    const reportProgress = () => {
      if (!this.#prefills.includes(prefill)) return;
      job.onProgress(prompt.tokens - this.#unread(prefill));
      this.#parts.time.after(PROGRESS_MS, reportProgress);
    };
    this.#parts.time.after(PROGRESS_MS, reportProgress);
    this.#share([...this.#prefills, prefill]);
    this.#prefillNext();
  }

  #share(prefills: readonly Prefill[]): void {
    for (const prefill of this.#prefills) prefill.leftTokens = this.#leftTokens(prefill);
    this.#prefills = prefills;
    this.#prefillsSinceMs = this.#parts.time.nowMs();
    const [first] = [...prefills].sort((a, b) => a.leftTokens - b.leftTokens);
    if (!first) return;
    this.#parts.time.after((first.leftTokens * prefills.length * 1_000) / PREFILL_TOKENS_PER_SECOND, () => {
      // If prefills have begun or ended since, another timer ends the next one.
      if (this.#prefills === prefills) this.#end(first);
    });
  }

  #end(prefill: Prefill): void {
    const { job, beganMs } = prefill;
    const { prompt } = job;
    this.#account();
    this.#decoding += 1;
    this.#share(this.#prefills.filter((other) => other !== prefill));
    this.#parts.tiers.caches.use(this.#parts.cache, prompt.last);
    this.#parts.tiers.lower?.use(this.#parts.cache, prompt.last);
    job.onFirstToken();
    this.#parts.onChange();
    const prefillMs = this.#parts.time.nowMs() - beganMs;
    this.#parts.time.after(prompt.outputTokens * DECODE_MS_PER_TOKEN, () => {
      this.#account();
      this.#decoding -= 1;
      this.#runningTokens -= prompt.tokens;
      job.onFinished(prefillMs);
    });
    this.#prefillNext();
  }

  #unread(prefill: Prefill): number {
    return Math.ceil(this.#leftTokens(prefill));
  }

  #leftTokens({ leftTokens }: Prefill): number {
    const readMs = (this.#parts.time.nowMs() - this.#prefillsSinceMs) / this.#prefills.length;
    return Math.max(0, leftTokens - (readMs * PREFILL_TOKENS_PER_SECOND) / 1_000);
  }

  /** Returns the tokens to prefill; those to load count as their share. */
  #uncached({ tokens, last }: Prompt): number {
    const cached = cachedIn(this.#parts.tiers, this.#parts.cache, last);
    return tokens - cached.tokens + LOAD_SHARE * cached.lowerTokens;
  }

  #account(): void {
    const elapsedMs = this.#parts.time.nowMs() - this.#changedMs;
    this.#changedMs = this.#parts.time.nowMs();
    const { running, waiting } = this.report;
    this.#requestMs += elapsedMs * (running + waiting);
    if (this.#prefills.length > 0) this.#prefillMs += elapsedMs;
  }
}

export type HeldTiers = { readonly caches: HeldPieces; readonly lower: HeldPieces | undefined };

/** Returns the cached part of a prompt, with the tokens that only host memory holds. */
export function cachedIn({ caches, lower }: HeldTiers, cache: number, last: number): CachedPart {
  const onDevice = caches.cached(cache, last);
  const tokens = Math.max(onDevice, lower?.cached(cache, last) ?? 0);
  return { tokens, lowerTokens: tokens - onDevice };
}
