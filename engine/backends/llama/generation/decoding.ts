import type { Token } from "node-llama-cpp";
import type { TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { PromptReading } from "../slots/batch-shares.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import { toTokenLogprob } from "../tokens/logprobs.ts";
import type { AnswerStep } from "./answer-course.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { PreparedGeneration } from "./prepared-generation.ts";
import { type Sample, Sampler } from "./sampler.ts";

/** The result of one step, which makes one token. */
export type DecodingStep = AnswerStep & {
  /** Whether the answer is over. */
  readonly over: boolean;
};

/** The end of a prompt that is read with the first step of its answer. */
export type PromptEnd = {
  /** The tokens of it. */
  readonly tail: readonly Token[];
  /** Told of the step that reads them, and that the prompt is read. */
  readonly reading: PromptReading;
};

const OVER: DecodingStep = { events: [], tokens: [], over: true };

/** Runs the token loop of one answer, one step at a time. */
export class Decoding {
  readonly #parts: EngineParts;
  readonly #prepared: PreparedGeneration;
  readonly #lease: SlotLease;
  readonly #sampler: Sampler;
  readonly #reading: PromptReading;
  readonly #tail: readonly Token[];
  /** The sample behind the token that was handed out last; undefined before the first is begun. */
  #ahead: Promise<Sample> | undefined;
  #isFirst = true;
  #firstTokenMs: number | undefined;

  /** Begins an answer. The end of the prompt that is not in the cache, which is never empty, is read with it. */
  constructor(parts: EngineParts, prepared: PreparedGeneration, lease: SlotLease, { tail, reading }: PromptEnd) {
    this.#parts = parts;
    this.#prepared = prepared;
    this.#lease = lease;
    this.#reading = reading;
    this.#tail = tail;
    const { evaluateOptions, topLogprobs, seed, course } = prepared;
    this.#sampler = new Sampler(parts.runtime.decoder, lease.slot.sequence, {
      evaluateOptions,
      probabilities: topLogprobs !== undefined,
      seed,
      position: () => course.position,
    });
  }

  /** The moment at which the first token was there, in milliseconds of the clock of the engine; undefined before. */
  get firstTokenMs(): number | undefined {
    return this.#firstTokenMs;
  }

  /** Has the first token begun, which the first step hands out: what is to be told meanwhile is told after this. */
  begin(): void {
    this.#ahead = this.#firstSample();
    this.#ahead.catch(() => {});
  }

  /**
   * Makes one token, and has the next one begun: what becomes of this one is done while the engine computes. Nothing is
   * begun behind the next one until this is called again. Throws `EngineError`.
   */
  async step(): Promise<DecodingStep> {
    const { course } = this.#prepared;
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    const sample = await (this.#ahead ?? this.#firstSample());
    if (this.#firstTokenMs !== undefined && isFirst) {
      this.#reading.evaluated(this.#firstTokenMs);
      this.#reading.end();
    }
    const { token } = sample;
    const { given } = course;
    if (given === undefined && this.#parts.runtime.model.isEogToken(token)) return OVER;
    const logprob = this.#logprob(given ?? token, sample);
    const { events, tokens } = given === undefined ? course.take(token, logprob) : course.takeGiven(logprob);
    const { over } = course;
    if (!over) await this.#goOn(tokens, isFirst);
    return { events, tokens, over };
  }

  /** Frees what the token loop holds, once the lease is closed. */
  close(): void {
    this.#sampler.close();
  }

  /** Has the sample behind `tokens` made, and waits until the engine is at it unless `atOnce`. */
  async #goOn(tokens: readonly Token[], atOnce: boolean): Promise<void> {
    // The round may begin while the sample is asked for.
    const { underWay } = this.#parts.steps;
    const ahead = this.#sample(tokens);
    // How it ends is nobody's concern who has left before.
    ahead.catch(() => {});
    this.#ahead = ahead;
    if (!atOnce && this.#lease.open) await underWay;
  }

  /** Makes a sample behind `tokens`, those of the last step. */
  #sample(tokens: readonly Token[]): Promise<Sample> {
    return this.#lease.run(() => this.#sampler.next(tokens));
  }

  /** Makes the first sample, for which the end of the prompt is read. */
  async #firstSample(): Promise<Sample> {
    const { clock } = this.#parts;
    const tail = this.#tail;
    const sample = await this.#lease.run(() => {
      this.#reading.begins(tail.length, clock.nowMs());
      return this.#sampler.next(tail);
    });
    this.#firstTokenMs = clock.nowMs();
    return sample;
  }

  #logprob(token: Token, { probabilities }: Sample): TokenLogprob | undefined {
    const { topLogprobs } = this.#prepared;
    if (topLogprobs === undefined || !probabilities) return undefined;
    return toTokenLogprob(this.#parts.runtime.model, token, probabilities, topLogprobs);
  }
}
