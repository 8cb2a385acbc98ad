import type { EventQueue } from "./event-queue.ts";
import type { PieceCaches } from "./piece-cache.ts";
import type { Prompt } from "./prompt.ts";

/** The speed of a node, that of the routing study: tokens prefilled in a second. */
export const PREFILL_TOKENS_PER_SECOND = 12_000;
/** The time that a node takes for a token of an answer, in milliseconds, however many answers it writes. */
const DECODE_MS_PER_TOKEN = 20;
/** The time between two messages on how far a prompt is prefilled, in milliseconds. */
const PROGRESS_MS = 500;

/** What a node says of itself. */
export type NodeReport = {
  readonly running: number;
  readonly waiting: number;
  readonly queuedUncachedTokens: number;
  /** The share of the KV cache that running requests hold. */
  readonly kvUse: number;
  /** How long the cache has kept what nobody used, in milliseconds; undefined until it evicted something. */
  readonly retentionMs: number | undefined;
};

/** Who is told how a request comes along on its node. */
export type Job = {
  readonly prompt: Prompt;
  /** Called when the prefill begins; `cachedTokens` of the prompt were found in the cache. */
  readonly onStarted: (cachedTokens: number) => void;
  /**
   * Called when the request is served from now on at another share, above 0 and at most 1, of what it would be alone: prompts
   * that are prefilled at once share the node's speed, and answers do not.
   */
  readonly onShare: (share: number) => void;
  /** Called while the prompt is prefilled, with the tokens of it that are, cached ones included. */
  readonly onProgress: (prefilledTokens: number) => void;
  /** Called when the prompt is prefilled. */
  readonly onFirstToken: () => void;
  /** Called when the answer is whole; its prompt was prefilled in `prefillMs` milliseconds. */
  readonly onFinished: (prefillMs: number) => void;
};

/** Time integrals since the start, in milliseconds: of the requests on a node, and of its prefilling. */
export type NodeUse = { readonly requestMs: number; readonly prefillMs: number };

/** What a node is made of. */
export type ReplayNodeParts = {
  readonly time: EventQueue;
  readonly caches: PieceCaches;
  /** The number of the cache in which the node keeps prompts. */
  readonly cache: number;
  /** The most prompts that the node prefills at once, all equally fast; the others wait in order of arrival. */
  readonly prefillsAtOnce: number;
  /** Called when the node has another prompt to prefill, or has prefilled one. */
  readonly onChange: () => void;
};

/** A prompt that is prefilled. */
type Prefill = {
  readonly job: Job;
  readonly beganMs: number;
  /** The tokens that were left when another prompt last began or ended beside it; all that it lacked at its begin. */
  leftTokens: number;
};

/** A node in virtual time: it prefills some prompts at once, in order of arrival, and decodes side by side. */
export class ReplayNode {
  readonly #time: EventQueue;
  readonly #caches: PieceCaches;
  readonly #cache: number;
  readonly #prefillsAtOnce: number;
  readonly #onChange: () => void;
  readonly #queue: { readonly job: Job; readonly uncachedTokens: number }[] = [];
  #queuedTokens = 0;
  #prefills: readonly Prefill[] = [];
  /** When a prompt last began or ended. */
  #prefillsSinceMs = 0;
  #decoding = 0;
  #runningTokens = 0;
  #changedMs = 0;
  #requestMs = 0;
  #prefillMs = 0;

  /** Makes an idle node. */
  constructor({ time, caches, cache, prefillsAtOnce, onChange }: ReplayNodeParts) {
    this.#time = time;
    this.#onChange = onChange;
    this.#caches = caches;
    this.#cache = cache;
    this.#prefillsAtOnce = prefillsAtOnce;
  }

  /** What the node says of itself now. */
  get report(): NodeReport {
    return {
      running: this.#decoding + this.#prefills.length,
      waiting: this.#queue.length,
      queuedUncachedTokens: this.#prefills.reduce((sum, prefill) => sum + this.#unread(prefill), this.#queuedTokens),
      kvUse: Math.min(1, this.#runningTokens / this.#caches.capacity),
      retentionMs: this.#caches.retentionMs(this.#cache),
    };
  }

  /** What the node has done up to now. */
  get use(): NodeUse {
    this.#account();
    return { requestMs: this.#requestMs, prefillMs: this.#prefillMs };
  }

  /** Takes a request. */
  submit(job: Job): void {
    this.#account();
    const uncachedTokens = this.#uncached(job.prompt);
    this.#queue.push({ job, uncachedTokens });
    this.#queuedTokens += uncachedTokens;
    this.#prefillNext();
    this.#onChange();
  }

  #prefillNext(): void {
    const next = this.#prefills.length < this.#prefillsAtOnce ? this.#queue.shift() : undefined;
    if (!next) return;
    const { job } = next;
    const { prompt } = job;
    this.#queuedTokens -= next.uncachedTokens;
    const uncachedTokens = this.#uncached(prompt);
    this.#runningTokens += prompt.tokens;
    job.onStarted(prompt.tokens - uncachedTokens);
    // Even a prompt that is all in the cache takes a step.
    const prefill = { job, beganMs: this.#time.nowMs(), leftTokens: Math.max(1, uncachedTokens) };
    const tell = () => {
      if (!this.#prefills.includes(prefill)) return;
      job.onProgress(prompt.tokens - this.#unread(prefill));
      this.#time.after(PROGRESS_MS, tell);
    };
    this.#time.after(PROGRESS_MS, tell);
    this.#share([...this.#prefills, prefill]);
    this.#prefillNext();
  }

  /** Has the speed of the node shared by other prompts from now on. */
  #share(prefills: readonly Prefill[]): void {
    for (const prefill of this.#prefills) prefill.leftTokens = this.#leftTokens(prefill);
    this.#prefills = prefills;
    this.#prefillsSinceMs = this.#time.nowMs();
    for (const { job } of prefills) job.onShare(1 / prefills.length);
    const [first] = [...prefills].sort((a, b) => a.leftTokens - b.leftTokens);
    if (!first) return;
    this.#time.after((first.leftTokens * prefills.length * 1_000) / PREFILL_TOKENS_PER_SECOND, () => {
      // Where others have come or gone meanwhile, the next to end was looked for again.
      if (this.#prefills === prefills) this.#end(first);
    });
  }

  #end(prefill: Prefill): void {
    const { job, beganMs } = prefill;
    const { prompt } = job;
    this.#account();
    this.#decoding += 1;
    this.#share(this.#prefills.filter((other) => other !== prefill));
    job.onShare(1);
    this.#caches.use(this.#cache, prompt.last);
    job.onFirstToken();
    this.#onChange();
    const prefillMs = this.#time.nowMs() - beganMs;
    this.#time.after(prompt.outputTokens * DECODE_MS_PER_TOKEN, () => {
      this.#account();
      this.#decoding -= 1;
      this.#runningTokens -= prompt.tokens;
      job.onFinished(prefillMs);
    });
    this.#prefillNext();
  }

  /** Returns how many tokens of a prompt that is prefilled are yet to be. */
  #unread(prefill: Prefill): number {
    return Math.ceil(this.#leftTokens(prefill));
  }

  #leftTokens({ leftTokens }: Prefill): number {
    const readMs = (this.#time.nowMs() - this.#prefillsSinceMs) / this.#prefills.length;
    return Math.max(0, leftTokens - (readMs * PREFILL_TOKENS_PER_SECOND) / 1_000);
  }

  #uncached({ tokens, last }: Prompt): number {
    return tokens - this.#caches.cached(this.#cache, last);
  }

  #account(): void {
    const elapsedMs = this.#time.nowMs() - this.#changedMs;
    this.#changedMs = this.#time.nowMs();
    const { running, waiting } = this.report;
    this.#requestMs += elapsedMs * (running + waiting);
    if (this.#prefills.length > 0) this.#prefillMs += elapsedMs;
  }
}
