import type { EventQueue } from "./event-queue.ts";
import type { PrefixCache, Segment } from "./prefix-cache.ts";

/** The speed of a node: tokens prefilled in a second, and the mean time of decoding an answer in milliseconds. */
export type NodeSpeed = {
  readonly prefillTokensPerSecond: number;
  readonly meanDecodeMs: number;
};

/** The speed of a node, as in the routing study of the reference. */
export const NODE_SPEED: NodeSpeed = { prefillTokensPerSecond: 12_000, meanDecodeMs: 8_900 };

/** What a node says of itself, once a second. */
export type NodeReport = {
  readonly running: number;
  readonly waiting: number;
  readonly queuedUncachedTokens: number;
};

/** A prompt to be answered by a node, and who is told of its progress. */
export type Job = {
  readonly prompt: readonly Segment[];
  /** Called when the prefill begins; `cachedTokens` of the prompt were found in the cache. */
  readonly onStarted: (cachedTokens: number) => void;
  /** Called when the prompt is prefilled. */
  readonly onFirstToken: () => void;
  /**
   * Called when the answer is whole; its prompt was prefilled in `prefillMs` milliseconds. Returns the prompt with the
   * answer in it.
   */
  readonly onFinished: (prefillMs: number) => readonly Segment[];
};

/**
 * An engine node in virtual time: it prefills one prompt after the other, decodes side by side, and keeps prefixes in
 * its cache.
 */
export class SimulatedNode {
  readonly address: string;
  readonly #time: EventQueue;
  readonly #cache: PrefixCache;
  readonly #speed: NodeSpeed;
  readonly #random: () => number;
  readonly #queue: { readonly job: Job; readonly uncachedTokens: number }[] = [];
  #prefilling = 0;
  #decoding = 0;
  #changedMs = 0;
  #requestMs = 0;
  #prefillMs = 0;

  constructor(address: string, time: EventQueue, cache: PrefixCache, speed: NodeSpeed, random: () => number) {
    this.address = address;
    this.#time = time;
    this.#cache = cache;
    this.#speed = speed;
    this.#random = random;
  }

  get report(): NodeReport {
    return {
      running: this.#decoding + (this.#prefilling > 0 ? 1 : 0),
      waiting: this.#queue.length,
      queuedUncachedTokens: this.#prefilling + this.#queue.reduce((sum, { uncachedTokens }) => sum + uncachedTokens, 0),
    };
  }

  /** Time integrals since the start: of the requests on the node, and of its prefilling; milliseconds. */
  get load(): { readonly requestMs: number; readonly prefillMs: number } {
    this.#account();
    return { requestMs: this.#requestMs, prefillMs: this.#prefillMs };
  }

  submit(job: Job): void {
    this.#account();
    this.#queue.push({ job, uncachedTokens: this.#uncached(job.prompt) });
    this.#prefillNext();
  }

  #prefillNext(): void {
    if (this.#prefilling > 0) return;
    const job = this.#queue.shift()?.job;
    if (!job) return;
    const uncachedTokens = this.#uncached(job.prompt);
    const cachedTokens = total(job.prompt) - uncachedTokens;
    // Even a prompt that is all in the cache takes a step.
    this.#prefilling = Math.max(1, uncachedTokens);
    const prefillMs = (this.#prefilling * 1_000) / this.#speed.prefillTokensPerSecond;
    job.onStarted(cachedTokens);
    this.#time.after(prefillMs, () => {
      this.#account();
      this.#prefilling = 0;
      this.#decoding += 1;
      this.#cache.use(job.prompt);
      job.onFirstToken();
      this.#time.after(this.#speed.meanDecodeMs * (0.5 + this.#random()), () => {
        this.#account();
        this.#decoding -= 1;
        this.#cache.use(job.onFinished(prefillMs));
      });
      this.#prefillNext();
    });
  }

  #uncached(prompt: readonly Segment[]): number {
    return total(prompt) - this.#cache.cached(prompt);
  }

  #account(): void {
    const elapsedMs = this.#time.nowMs() - this.#changedMs;
    this.#changedMs = this.#time.nowMs();
    const { running, waiting } = this.report;
    this.#requestMs += elapsedMs * (running + waiting);
    if (this.#prefilling > 0) this.#prefillMs += elapsedMs;
  }
}

function total(prompt: readonly Segment[]): number {
  return prompt.reduce((sum, { tokens }) => sum + tokens, 0);
}
