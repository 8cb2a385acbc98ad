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

/** Runs the token loop of one answer, one step at a time. */
export class Decoding {
  readonly #parts: EngineParts;
  readonly #prepared: PreparedGeneration;
  readonly #lease: SlotLease;
  readonly #samples: Samples;
  readonly #reading: PromptReading;
  readonly #tailTokens: number;
  /** The tokens that are evaluated next: those of the last step. */
  #next: Token[] | undefined;
  /** The step behind the last one that was handed out; undefined before the first, and behind the last. */
  #ahead: Promise<DecodingStep> | undefined;
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

  /**
   * Makes one token, and has the next one begun: what becomes of this one, up to the wire, is done while the engine
   * computes. Nothing is begun behind that one until this is called again. Throws `EngineError`.
   */
  async step(): Promise<DecodingStep> {
    const isFirst = this.#ahead === undefined;
    const step = await (this.#ahead ?? this.#make());
    if (step.over) return step;
    const { underWay } = this.#parts.steps;
    const ahead = this.#make();
    // How it ends is nobody's concern who has left before.
    ahead.catch(() => {});
    this.#ahead = ahead;
    if (!isFirst && this.#lease.open) await underWay;
    return step;
  }

  async #make(): Promise<DecodingStep> {
    const { course } = this.#prepared;
    const next = await (this.#next ? this.#nextSample(this.#next) : this.#firstSample());
    if (next.done) throw new EngineError("ENGINE_ERROR", "The model gave no token.");
    const sampled = next.value.token;
    const { given } = course;
    if (given === undefined && this.#parts.runtime.model.isEogToken(sampled))
      return { events: [], tokens: [], over: true };
    const logprob = this.#logprob(given ?? sampled, next.value);
    const step = given === undefined ? course.take(sampled, logprob) : course.takeGiven(logprob);
    this.#next = [...step.tokens];
    return { ...step, over: course.over };
  }

  #nextSample(last: Token[]): Promise<IteratorResult<Sample, void>> {
    return this.#lease.run(last.length, false, () => this.#samples.next(last));
  }

  async #firstSample(): Promise<IteratorResult<Sample, void>> {
    const { clock } = this.#parts;
    const sample = await this.#lease.run(this.#tailTokens, true, () => {
      this.#reading.begins(this.#tailTokens, clock.nowMs());
      return this.#samples.next();
    });
    this.#firstTokenMs = clock.nowMs();
    this.#reading.evaluated(this.#firstTokenMs);
    this.#reading.end();
    return sample;
  }

  #logprob(token: Token, { probabilities }: Sample): TokenLogprob | undefined {
    const { topLogprobs } = this.#prepared;
    if (topLogprobs === undefined || !probabilities) return undefined;
    return toTokenLogprob(this.#parts.runtime.model, token, probabilities, topLogprobs);
  }
}
