import type { PromptShape } from "../../boundary-hashes.ts";
import type { PlacementMap } from "./placement-map.ts";
import type { Prediction } from "./prefix-score.ts";

/** Until a model has been measured. About what English and code come to. */
const INITIAL_TOKENS_PER_BYTE = 0.25;
/** Share of a new measurement in what was learned. */
const LEARNING_RATE = 0.05;
/** A cached part below this share of the expected one refutes the belief that it rested on. */
const REFUTING_SHARE = 0.5;

/** A prompt on one endpoint, from the pick to what the engine said of it. */
export type Placed = {
  readonly shape: PromptShape;
  readonly address: string;
  readonly prediction: Prediction;
  /** How long the prefix is to be remembered after its last use, in milliseconds. */
  readonly ttlMs: number;
};

/** What an engine measured, at `Started` or `Finished`. */
export type Measured = {
  readonly inputTokens: number;
  /** Undefined where the engine does not say. */
  readonly cachedInputTokens: number | undefined;
};

/** Keeps the beliefs about one model's placement true: from requests on their way, and from what engines measured. */
export class PrefixLearning {
  readonly #placements: PlacementMap;
  #tokensPerByte = INITIAL_TOKENS_PER_BYTE;

  constructor(placements: PlacementMap) {
    this.#placements = placements;
  }

  /** Of the model's tokenizer on what its callers send. */
  get tokensPerByte(): number {
    return this.#tokensPerByte;
  }

  /** The prompt is on its way: the next turn will find it there. */
  dispatched({ shape, address, ttlMs }: Placed, nowMs: number): void {
    const { tokensPerByte } = this;
    this.#placements.record(shape.boundaries, address, { tokensPerByte, ttlMs, nowMs, confirmed: false });
  }

  /** The endpoint has prefilled the prompt. What it measured takes the place of what was believed. */
  prefilled({ shape, address, prediction, ttlMs }: Placed, measured: Measured, nowMs: number): void {
    const { belief } = prediction;
    const { inputTokens, cachedInputTokens } = measured;
    if (belief?.confirmed && cachedInputTokens !== undefined && cachedInputTokens < REFUTING_SHARE * belief.tokens) {
      this.#placements.evicted(address, belief.usedAtMs);
    }
    const bytes = shape.boundaries.at(-1)?.bytes ?? 0;
    const tokensPerByte = bytes > 0 && inputTokens > 0 ? inputTokens / bytes : this.#tokensPerByte;
    this.#tokensPerByte += LEARNING_RATE * (tokensPerByte - this.#tokensPerByte);
    this.#placements.record(shape.boundaries, address, { tokensPerByte, ttlMs, nowMs, confirmed: true });
  }

  /** The call ended before the endpoint said that it prefilled the prompt. */
  abandoned({ shape, address }: Placed): void {
    this.#placements.withdraw(shape.boundaries, address);
  }
}
