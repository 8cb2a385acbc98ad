import type { CachedPart } from "../../../engine/backends/openai-compatible/kv-events/block-tree.ts";
import { LOAD_SHARE } from "../../../engine/backends/openai-compatible/kv-events/rank-pick.ts";
import type { EventQueue } from "./event-queue.ts";
import type { CachePlace, HeldPieces, PieceCaches } from "./piece-cache.ts";
import type { Prompt } from "./traffic.ts";

/**
 * What a step of a node costs, in milliseconds: itself, and by each running sequence and each prompt token in it.
 * Measured with a dense model of 8 billion parameters (36 layers, Q8_0) in llama.cpp on one NVIDIA H200. Steps without
 * prompts take 8.1 ms with 8 sequences, 9.0 with 16 and 10.9 with 32: a sequence costs (10.9 - 8.1) / 24, the step
 * itself 8.1 less 8 of these. A prompt of 8,000 tokens is read at 7,556 tokens per second in steps of 256 and at 8,585
 * in steps of 2,048, which thus take 33.9 and 238.6 ms: a prompt token costs (238.6 - 33.9) / 1,792.
 */
const STEP_MS = { itself: 7.2, perSequence: 0.117, perPromptToken: 0.114 };
/** The most prompt tokens in a step, over all prompts: the batch of llama.cpp on accelerators. */
const STEP_PROMPT_TOKENS = 512;
/** The speed of a prompt that is alone on its node. */
export const PREFILL_TOKENS_PER_SECOND = (1_000 * STEP_PROMPT_TOKENS) / stepMs(1, STEP_PROMPT_TOKENS);
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
  /** Whether another node has read the prompt: this one takes a step for it. Default: false. */
  readonly isRead?: boolean;
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
  /** Called with the tokens that answers got, one each `gapMs` milliseconds. */
  readonly onTokens: (tokens: number, gapMs: number) => void;
};

/** A prompt that is prefilled, or an answer that is decoded, with the tokens that are left of it. */
type Running = {
  readonly job: Job;
  readonly places: readonly CachePlace[];
  readonly beganMs: number;
  /** Undefined during the prefill. */
  readonly prefillMs: number | undefined;
  leftTokens: number;
};

/**
 * A node in virtual time: each step adds a token to every answer and prefills a part of the prompts, several at once in
 * order of arrival. Between two changes of what runs, all steps take the same time.
 */
export class ReplayNode {
  readonly #parts: ReplayNodeParts;
  readonly #queue: { readonly job: Job; readonly uncachedTokens: number }[] = [];
  #queuedTokens = 0;
  #prefills: readonly Running[] = [];
  #answers: readonly Running[] = [];
  /** The tokens per millisecond of each prefill and each answer since the last change. */
  #speeds = { prefill: 0, answer: 0 };
  #changedMs = 0;
  #changes = 0;
  #runningTokens = 0;
  #requestMs = 0;
  #prefillMs = 0;

  constructor(parts: ReplayNodeParts) {
    this.#parts = parts;
  }

  get report(): NodeReport {
    this.#advance();
    return {
      running: this.#answers.length + this.#prefills.length,
      waiting: this.#queue.length,
      queuedUncachedTokens: this.#prefills.reduce(
        (sum, { leftTokens }) => sum + Math.ceil(leftTokens),
        this.#queuedTokens,
      ),
      kvUse: Math.min(1, this.#runningTokens / this.#parts.tiers.caches.capacity),
      retentionMs: this.#parts.tiers.caches.retentionMs(this.#parts.cache),
    };
  }

  get use(): NodeUse {
    this.#advance();
    return { requestMs: this.#requestMs, prefillMs: this.#prefillMs };
  }

  submit(job: Job): void {
    this.#advance();
    const uncachedTokens = job.isRead ? 0 : this.#uncached(job.prompt);
    this.#queue.push({ job, uncachedTokens });
    this.#queuedTokens += uncachedTokens;
    this.#prefillNext();
    this.#parts.onChange();
  }

  #prefillNext(): void {
    const { time, tiers, cache, prefillsAtOnce } = this.#parts;
    if (this.#prefills.length >= prefillsAtOnce || !tiers.caches.hasCapacity(cache)) return;
    const next = this.#queue.shift();
    if (!next) return;
    const { job } = next;
    const { prompt } = job;
    this.#queuedTokens -= next.uncachedTokens;
    this.#runningTokens += prompt.tokens;
    job.onStarted(cachedIn(tiers, cache, prompt.last).tokens);
    // Even a fully cached prompt takes a step.
    const leftTokens = Math.max(1, job.isRead ? 0 : this.#uncached(prompt));
    const places = [tiers.caches, tiers.lower].flatMap((caches) => caches?.begin(cache, prompt) ?? []);
    const prefill = { job, places, beganMs: time.nowMs(), prefillMs: undefined, leftTokens };
    const reportProgress = () => {
      if (!this.#prefills.includes(prefill)) return;
      this.#advance();
      job.onProgress(prompt.tokens - Math.ceil(prefill.leftTokens));
      time.after(PROGRESS_MS, reportProgress);
    };
    time.after(PROGRESS_MS, reportProgress);
    this.#run([...this.#prefills, prefill], this.#answers);
    this.#prefillNext();
  }

  /** Runs other prompts and answers from now on, until the first of them is complete. */
  #run(prefills: readonly Running[], answers: readonly Running[]): void {
    this.#advance();
    this.#prefills = prefills;
    this.#answers = answers;
    this.#changes += 1;
    const leftTokens = prefills.reduce((sum, prefill) => sum + prefill.leftTokens, 0);
    const promptTokens = prefills.length === 0 ? 0 : Math.min(STEP_PROMPT_TOKENS, Math.max(1, leftTokens));
    const ms = stepMs(prefills.length + answers.length, promptTokens);
    this.#speeds = { prefill: promptTokens / Math.max(1, prefills.length) / ms, answer: 1 / ms };
    const [prefill, answer] = [leastLeft(prefills), leastLeft(answers)];
    const prefillMs = prefill ? prefill.leftTokens / this.#speeds.prefill : Number.POSITIVE_INFINITY;
    const answerMs = answer ? answer.leftTokens / this.#speeds.answer : Number.POSITIVE_INFINITY;
    const first = prefillMs <= answerMs ? prefill : answer;
    if (!first) return;
    const change = this.#changes;
    this.#parts.time.after(Math.min(prefillMs, answerMs), () => {
      // If others have begun or ended since, another timer ends the next one.
      if (this.#changes === change) this.#end(first);
    });
  }

  #end(running: Running): void {
    const { job, places, beganMs, prefillMs } = running;
    const { prompt } = job;
    const { time, onChange } = this.#parts;
    if (prefillMs !== undefined) {
      this.#run(this.#prefills, without(this.#answers, running));
      this.#runningTokens -= prompt.tokens;
      for (const place of places) place.done();
      job.onFinished(prefillMs);
      this.#prefillNext();
      return;
    }
    const answer = { job, places, beganMs, prefillMs: time.nowMs() - beganMs, leftTokens: prompt.outputTokens };
    this.#run(without(this.#prefills, running), [...this.#answers, answer]);
    for (const place of places) place.prefilled();
    job.onFirstToken();
    onChange();
    this.#prefillNext();
  }

  /** Returns the tokens to prefill; those to load count as their share. */
  #uncached({ tokens, last }: Prompt): number {
    const cached = cachedIn(this.#parts.tiers, this.#parts.cache, last);
    return tokens - cached.tokens + LOAD_SHARE * cached.lowerTokens;
  }

  /** Accounts for the time since the last call. */
  #advance(): void {
    const elapsedMs = this.#parts.time.nowMs() - this.#changedMs;
    if (elapsedMs === 0) return;
    this.#changedMs += elapsedMs;
    this.#requestMs += elapsedMs * (this.#answers.length + this.#prefills.length + this.#queue.length);
    if (this.#prefills.length > 0) this.#prefillMs += elapsedMs;
    const { prefill, answer } = this.#speeds;
    for (const one of this.#prefills) one.leftTokens = Math.max(0, one.leftTokens - elapsedMs * prefill);
    for (const one of this.#answers) {
      const tokens = Math.min(one.leftTokens, elapsedMs * answer);
      one.leftTokens -= tokens;
      this.#parts.onTokens(tokens, 1 / answer);
    }
  }
}

function stepMs(sequences: number, promptTokens: number): number {
  return STEP_MS.itself + STEP_MS.perSequence * sequences + STEP_MS.perPromptToken * promptTokens;
}

function leastLeft(running: readonly Running[]): Running | undefined {
  return running.reduce<Running | undefined>(
    (first, one) => (!first || one.leftTokens < first.leftTokens ? one : first),
    undefined,
  );
}

function without(running: readonly Running[], ended: Running): readonly Running[] {
  return running.filter((one) => one !== ended);
}

export type HeldTiers = { readonly caches: HeldPieces; readonly lower: HeldPieces | undefined };

/** Returns the cached part of a prompt, with the tokens that only host memory holds. */
export function cachedIn({ caches, lower }: HeldTiers, cache: number, last: number): CachedPart {
  const onDevice = caches.cached(cache, last);
  const tokens = Math.max(onDevice, lower?.cached(cache, last) ?? 0);
  return { tokens, lowerTokens: tokens - onDevice };
}
