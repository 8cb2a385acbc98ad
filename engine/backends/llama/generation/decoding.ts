import type { Token } from "node-llama-cpp";
import type { TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import type { PromptReading } from "../slots/batch-shares.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import { toTokenLogprob } from "../tokens/logprobs.ts";
import type { AnswerStep } from "./answer-course.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { PreparedGeneration } from "./prepared-generation.ts";
import { type Sample, type Samples, startSamples } from "./samples.ts";

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
  readonly #samples: Samples;
  readonly #reading: PromptReading;
  readonly #tailTokens: number;
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
    this.#tailTokens = tail.length;
    const { evaluateOptions, topLogprobs, seed, course } = prepared;
    this.#samples = lease.own(
      startSamples(lease.slot.sequence, tail, {
        evaluateOptions,
        probabilities: topLogprobs !== undefined,
        seed,
        position: () => course.position,
      }),
    );
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
  async #sample(tokens: readonly Token[]): Promise<Sample> {
    const next = await this.#lease.run(tokens.length, false, () => this.#samples.next([...tokens]));
    return sampleOf(next);
  }

  /** Makes the first sample, for which the end of the prompt is read. */
  async #firstSample(): Promise<Sample> {
    const { clock } = this.#parts;
    const next = await this.#lease.run(this.#tailTokens, true, () => {
      this.#reading.begins(this.#tailTokens, clock.nowMs());
      return this.#samples.next();
    });
    this.#firstTokenMs = clock.nowMs();
    return sampleOf(next);
  }

  #logprob(token: Token, { probabilities }: Sample): TokenLogprob | undefined {
    const { topLogprobs } = this.#prepared;
    if (topLogprobs === undefined || !probabilities) return undefined;
    return toTokenLogprob(this.#parts.runtime.model, token, probabilities, topLogprobs);
  }
}

function sampleOf(next: IteratorResult<Sample, void>): Sample {
  if (next.done) throw new EngineError("ENGINE_ERROR", "The model gave no token.");
  return next.value;
}
