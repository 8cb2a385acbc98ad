import type { Token } from "node-llama-cpp";
import type { TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { PromptReading } from "../slots/batch-shares.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import { toTokenLogprob } from "../tokens/logprobs.ts";
import type { AnswerStep } from "./answer-course.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { PreparedGeneration } from "./prepared-generation.ts";
import { type Sample, Sampler } from "./sampler.ts";

export type DecodingStep = AnswerStep & {
  readonly over: boolean;
};

/** The last chunk of a prompt, which is prefilled with the first step of its answer. */
export type PromptEnd = {
  readonly tail: readonly Token[];
  readonly reading: PromptReading;
};

const OVER: DecodingStep = { events: [], tokens: [], over: true };

export class Decoding {
  readonly #parts: EngineParts;
  readonly #prepared: PreparedGeneration;
  readonly #lease: SlotLease;
  readonly #sampler: Sampler;
  readonly #reading: PromptReading;
  readonly #tail: readonly Token[];
  #ahead: Promise<Sample> | undefined;
  #isFirst = true;
  #firstTokenMs: number | undefined;

  /** `tail`, the uncached end of the prompt, is never empty: it is prefilled with the first step. */
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

  get firstTokenMs(): number | undefined {
    return this.#firstTokenMs;
  }

  /** Starts sampling the first token. Events sent after this call overlap with the computation. */
  begin(): void {
    this.#ahead = this.#firstSample();
    this.#ahead.catch(() => {});
  }

  /** Returns one token and starts sampling the next, but none further. Throws `EngineError`. */
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

  close(): void {
    this.#sampler.close();
  }

  /** Starts sampling after `tokens`, and unless `atOnce` waits until the engine computes it. */
  async #goOn(tokens: readonly Token[], atOnce: boolean): Promise<void> {
    // Read first: the round may begin while the sample is requested.
    const { underWay } = this.#parts.steps;
    const ahead = this.#sample(tokens);
    // A caller that leaves does not await this promise.
    ahead.catch(() => {});
    this.#ahead = ahead;
    if (!atOnce && this.#lease.open) await underWay;
  }

  #sample(tokens: readonly Token[]): Promise<Sample> {
    return this.#lease.run(() => this.#sampler.next(tokens));
  }

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
