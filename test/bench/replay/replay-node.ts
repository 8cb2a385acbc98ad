import type { EventQueue } from "../routing/event-queue.ts";
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
  /** Called when the node has another prompt to prefill, or has prefilled one. */
  readonly onChange: () => void;
};

/** A node in virtual time: it prefills one prompt after the other in order of arrival, and decodes side by side. */
export class ReplayNode {
  readonly #time: EventQueue;
  readonly #caches: PieceCaches;
  readonly #cache: number;
  readonly #onChange: () => void;
  readonly #queue: { readonly job: Job; readonly uncachedTokens: number }[] = [];
  #queuedTokens = 0;
  /** The tokens that the prompt that is prefilled lacked at its begin; 0 where none is. */
  #prefilling = 0;
  #prefillingSinceMs = 0;
  #decoding = 0;
  #runningTokens = 0;
  #changedMs = 0;
  #requestMs = 0;
  #prefillMs = 0;

  /** Makes an idle node. */
  constructor({ time, caches, cache, onChange }: ReplayNodeParts) {
    this.#time = time;
    this.#onChange = onChange;
    this.#caches = caches;
    this.#cache = cache;
  }

  /** What the node says of itself now. */
  get report(): NodeReport {
    return {
      running: this.#decoding + (this.#prefilling > 0 ? 1 : 0),
      waiting: this.#queue.length,
      queuedUncachedTokens: this.#unread() + this.#queuedTokens,
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
    const next = this.#prefilling > 0 ? undefined : this.#queue.shift();
    if (!next) return;
    const { job } = next;
    const { prompt } = job;
    this.#queuedTokens -= next.uncachedTokens;
    const uncachedTokens = this.#uncached(prompt);
    // Even a prompt that is all in the cache takes a step.
    this.#prefilling = Math.max(1, uncachedTokens);
    this.#prefillingSinceMs = this.#time.nowMs();
    this.#runningTokens += prompt.tokens;
    const prefillMs = (this.#prefilling * 1_000) / PREFILL_TOKENS_PER_SECOND;
    job.onStarted(prompt.tokens - uncachedTokens);
    const untilMs = this.#time.nowMs() + prefillMs;
    const tell = () => {
      if (this.#time.nowMs() >= untilMs) return;
      job.onProgress(prompt.tokens - this.#unread());
      this.#time.after(PROGRESS_MS, tell);
    };
    this.#time.after(PROGRESS_MS, tell);
    this.#time.after(prefillMs, () => {
      this.#account();
      this.#prefilling = 0;
      this.#decoding += 1;
      this.#caches.use(this.#cache, prompt.last);
      job.onFirstToken();
      this.#onChange();
      this.#time.after(prompt.outputTokens * DECODE_MS_PER_TOKEN, () => {
        this.#account();
        this.#decoding -= 1;
        this.#runningTokens -= prompt.tokens;
        job.onFinished(prefillMs);
      });
      this.#prefillNext();
    });
  }

  /** Returns how many tokens of the prompt that is prefilled are yet to be. */
  #unread(): number {
    const readMs = this.#time.nowMs() - this.#prefillingSinceMs;
    return Math.max(0, Math.ceil(this.#prefilling - (readMs * PREFILL_TOKENS_PER_SECOND) / 1_000));
  }

  #uncached({ tokens, last }: Prompt): number {
    return tokens - this.#caches.cached(this.#cache, last);
  }

  #account(): void {
    const elapsedMs = this.#time.nowMs() - this.#changedMs;
    this.#changedMs = this.#time.nowMs();
    const { running, waiting } = this.report;
    this.#requestMs += elapsedMs * (running + waiting);
    if (this.#prefilling > 0) this.#prefillMs += elapsedMs;
  }
}
