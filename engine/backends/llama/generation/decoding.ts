import type { Token } from "node-llama-cpp";
import type { GenerateResponse, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { progress, stepOf } from "../../stream-events.ts";
import type { PromptReading } from "../slots/prefill-turns.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import type { AnswerStep } from "./answer.ts";
import type { EngineParts, PreparedGeneration } from "./prepared-generation.ts";
import { type Sample, Sampler, toTokenLogprob } from "./sampling.ts";

type ReadPrompt = {
  readonly read: number;
  readonly news: GenerateResponse | undefined;
};

/** Prefills a prompt up to the last chunk, which `Decoding` computes with the first token. Throws `EngineError`. */
export async function* readPrompt(
  parts: EngineParts,
  { demand, inputTokens }: PreparedGeneration,
  { lease, reading }: { readonly lease: SlotLease; readonly reading: PromptReading },
  from: ReadPrompt,
): AsyncGenerator<GenerateResponse, ReadPrompt, void> {
  const { prompt } = demand;
  const copyBehind = lease.slot.copyBehind(demand);
  let { read, news } = from;
  for (;;) {
    const size = await reading.nextPiece();
    const piece = prompt.slice(read, read + (read < copyBehind ? Math.min(size, copyBehind - read) : size));
    if (read + piece.length >= prompt.length) return { read, news };
    // The turn passes on even while the caller pauses.
    const step = lease
      .run(() => parts.runtime.decoder.read(lease.slot.sequence, piece))
      .then(() => reading.evaluated(piece.length))
      .catch((error: unknown) => {
        reading.end();
        throw error;
      });
    // A caller that leaves does not await this promise.
    step.catch(() => {});
    if (news) yield news;
    await step;
    read += piece.length;
    if (read === copyBehind) await lease.keepCopy();
    news = stepOf([progress(0, Math.min(read, inputTokens), parts.steps.done)]);
  }
}

type DecodingStep = AnswerStep & {
  readonly over: boolean;
};

/** The last chunk of a prompt, which is prefilled with the first step of its answer. */
type PromptEnd = {
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
  #ahead: Promise<Sample>;
  #isFirst = true;
  firstTokenMs: number | undefined;

  /** Starts sampling the first token. `tail`, the uncached end of the prompt, is never empty. */
  constructor(parts: EngineParts, prepared: PreparedGeneration, lease: SlotLease, { tail, reading }: PromptEnd) {
    this.#parts = parts;
    this.#prepared = prepared;
    this.#lease = lease;
    this.#reading = reading;
    const { evaluateOptions, topLogprobs, seed, answer } = prepared;
    this.#sampler = new Sampler(parts.runtime.decoder, lease.slot.sequence, {
      evaluateOptions,
      alternatives: topLogprobs,
      given: () => answer.given,
      seed,
      position: () => answer.outputTokens,
    });
    this.#ahead = this.#firstSample(tail);
    this.#ahead.catch(() => {});
  }

  /** Returns one token and starts sampling the next, but none further. Throws `EngineError`. */
  async step(): Promise<DecodingStep> {
    const { answer } = this.#prepared;
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    const sample = await this.#ahead;
    const { token } = sample;
    const { given } = answer;
    // Only the prompt was to be read.
    if (answer.tokensLeft === 0) return OVER;
    if (given === undefined && this.#parts.runtime.model.isEogToken(token)) return OVER;
    const logprob = this.#logprob(given ?? token, sample);
    const { events, tokens } = given === undefined ? answer.take(token, logprob) : answer.takeGiven(logprob);
    const { over } = answer;
    if (!over) await this.#continue(tokens, isFirst);
    return { events, tokens, over };
  }

  close(): void {
    this.#sampler.close();
  }

  /** Starts sampling after `tokens`, and unless `atOnce` waits until the engine computes it. */
  async #continue(tokens: readonly Token[], atOnce: boolean): Promise<void> {
    // Read first: the round may begin while the sample is requested.
    const { underWay } = this.#parts.steps;
    const ahead = this.#lease.run(() => this.#sampler.next(tokens));
    // A caller that leaves does not await this promise.
    ahead.catch(() => {});
    this.#ahead = ahead;
    if (!atOnce && this.#lease.open) await underWay;
  }

  async #firstSample(tail: readonly Token[]): Promise<Sample> {
    const { clock } = this.#parts;
    try {
      const sample = await this.#lease.run(() => this.#sampler.next(tail));
      this.firstTokenMs = clock.nowMs();
      return sample;
    } finally {
      this.#reading.end();
    }
  }

  #logprob(token: Token, { probabilities }: Sample): TokenLogprob | undefined {
    const { topLogprobs } = this.#prepared;
    if (topLogprobs === undefined || !probabilities) return undefined;
    return toTokenLogprob(this.#parts.runtime.model, token, probabilities, topLogprobs);
  }
}
