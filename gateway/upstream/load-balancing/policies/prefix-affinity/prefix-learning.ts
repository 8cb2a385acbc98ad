import type { PromptShape } from "../../boundary-hashes.ts";
import type { PlacementMap } from "./placement-map.ts";
import type { Prediction } from "./prefix-score.ts";

/** The tokens to a byte until a model has been measured: about what English and code come to. */
const INITIAL_TOKENS_PER_BYTE = 0.25;
/** The share of a new measurement in what was learned. */
const LEARNING_RATE = 0.05;
/**
 * The share of the expected cached tokens below which the cached ones refute the belief that the expectation rested on.
 */
const REFUTING_SHARE = 0.5;

/** A prompt on one endpoint, from the pick to what the engine said of it. */
export type Placed = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** What the pick expected of the endpoint. */
  readonly prediction: Prediction;
  /** The time for which the prefix is to be remembered after its last use, in milliseconds. */
  readonly ttlMs: number;
};

/** What an engine measured of a prompt, as its `Started` event says it. */
export type Measured = {
  /** The number of tokens of the prompt. */
  readonly inputTokens: number;
  /** The number of the prompt's tokens that were in the cache; undefined where the engine does not say. */
  readonly cachedInputTokens: number | undefined;
};

/** Keeps the beliefs about one model's placement true: by requests on their way, and by what engines measured. */
export class PrefixLearning {
  readonly #placements: PlacementMap;
  #tokensPerByte = INITIAL_TOKENS_PER_BYTE;

  constructor(placements: PlacementMap) {
    this.#placements = placements;
  }

  /**
   * The tokens to a byte of prompt, as the model's tokenizer makes them of what its callers send; about a quarter until
   * it was measured.
   */
  get tokensPerByte(): number {
    return this.#tokensPerByte;
  }

  /**
   * Notes that the prompt is on its way at the monotonic time `nowMs`, so that the next turn is expected to find it
   * there.
   */
  dispatched({ shape, address, ttlMs }: Placed, nowMs: number): void {
    const { tokensPerByte } = this;
    this.#placements.record(shape.boundaries, address, { tokensPerByte, ttlMs, nowMs, confirmed: false });
  }

  /**
   * Notes that the endpoint has prefilled the prompt at the monotonic time `nowMs`. What its engine measured takes the
   * place of what was believed.
   */
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

  /** Notes that the call ended before the endpoint said that it prefilled the prompt. */
  abandoned({ shape, address }: Placed): void {
    this.#placements.withdraw(shape.boundaries, address);
  }
}
