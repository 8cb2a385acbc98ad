import type { Token } from "node-llama-cpp";
import type { Event, FinishReason, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import type { SlotLease } from "../slots/slot-lease.ts";
import { toTokenLogprob } from "../tokens/logprobs.ts";
import type { EngineParts } from "./engine-parts.ts";
import type { PreparedGeneration } from "./prepared-generation.ts";

/** A token as the library gives it; the probabilities only where they were asked for. */
type Sample = { readonly token: Token; readonly probabilities?: Map<Token, number> };

/** The result of one step, which makes one token. */
export type DecodingStep = {
  /** The events of the step. There may be none: a token can be half a character, or half a mark. */
  readonly events: readonly Event[];
  /** Whether the answer is over. */
  readonly over: boolean;
};

/** Runs the token loop of one answer, one step at a time. */
export class Decoding {
  readonly #parts: EngineParts;
  readonly #prepared: PreparedGeneration;
  readonly #lease: SlotLease;
  readonly #samples: AsyncGenerator<Sample, void, undefined | Token | Token[]>;
  /**
   * The tokens that are evaluated instead of the last one alone: that token, and what was written behind it in the
   * model's place.
   */
  #instead: Token[] | undefined;
  #cut: FinishReason | undefined;
  #firstTokenMs: number | undefined;

  /** Begins an answer. `tail` is the end of the prompt that is not in the cache; it is never empty. */
  constructor(parts: EngineParts, prepared: PreparedGeneration, lease: SlotLease, tail: readonly Token[]) {
    this.#parts = parts;
    this.#prepared = prepared;
    this.#lease = lease;
    const { evaluateOptions, topLogprobs } = prepared;
    const { sequence } = lease.slot;
    this.#samples = lease.own(
      topLogprobs === undefined
        ? sequence.evaluateWithMetadata([...tail], {}, evaluateOptions)
        : sequence.evaluateWithMetadata([...tail], { probabilities: true }, evaluateOptions),
    );
  }

  /** The reason why the answer was cut; undefined when it ended by itself. */
  get cut(): FinishReason | undefined {
    return this.#cut;
  }

  /** The moment at which the first token was there, in milliseconds of the clock of the engine; undefined before. */
  get firstTokenMs(): number | undefined {
    return this.#firstTokenMs;
  }

  /** Makes one token. Throws `EngineError`. */
  async step(): Promise<DecodingStep> {
    const { answer, generated, maxOutputTokens, limitReason } = this.#prepared;
    const instead = this.#instead;
    this.#instead = undefined;
    const next = await this.#lease.run(() => this.#samples.next(instead));
    this.#firstTokenMs ??= this.#parts.clock.nowMs();
    if (next.done) throw new EngineError("ENGINE_ERROR", "The model gave no token.");
    const { token } = next.value;
    if (this.#parts.runtime.model.isEogToken(token)) return { events: [], over: true };
    generated.push(token);
    const events = [...answer.push(token, this.#logprob(next.value))];
    if (answer.isComplete) return { events, over: true };
    if (answer.reasonedEnough) events.push(...this.#endReasoning(token));
    if (answer.outputTokens >= maxOutputTokens) this.#cut = limitReason;
    return { events, over: this.#cut !== undefined };
  }

  /** Writes the end of the reasoning in the model's place, as far as there is room. */
  #endReasoning(last: Token): readonly Event[] {
    const { answer, gate, generated, maxOutputTokens, reasoningEnd } = this.#prepared;
    const written = reasoningEnd.slice(0, maxOutputTokens - answer.outputTokens);
    generated.push(...written);
    this.#instead = [last, ...written];
    gate.reasoningEnded();
    return written.flatMap((token) => answer.push(token));
  }

  #logprob({ token, probabilities }: Sample): TokenLogprob | undefined {
    const { topLogprobs } = this.#prepared;
    if (topLogprobs === undefined || !probabilities) return undefined;
    return toTokenLogprob(this.#parts.runtime.model, token, probabilities, topLogprobs);
  }
}
