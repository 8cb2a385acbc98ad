import type { PromptShape } from "../../boundary-hashes.ts";
import type { EndpointView } from "../../endpoint-view.ts";
import type { PlacementMap } from "./placement-map.ts";
import type { Prediction } from "./prefix-score.ts";
import { WorkingSets } from "./working-sets.ts";

/** The tokens per byte before a model has been measured: typical of English text and code. */
const INITIAL_TOKENS_PER_BYTE = 0.25;
/** The tokens of an answer before any has ended. */
const INITIAL_ANSWER_TOKENS = 400;
/** The weight of a new measurement in the moving average. */
const LEARNING_RATE = 0.05;
/** The share of the expected cached tokens below which the measured ones refute the belief behind the expectation. */
const REFUTING_SHARE = 0.5;

/** The decay per pick of the counted requests: the last hundred picks dominate. */
const LOOKS_KEPT = 0.99;
/** The requests counted before a gateway can be considered the only one. */
const ENOUGH_REQUESTS = 20;
/** The share of other gateways' requests, from a value that stale reports explain to one that proves other gateways. */
const OTHERS_SHARE = { none: 0.1, sure: 0.4 };

/** A prompt on one endpoint, from the pick to the engine's first report. */
export type Placed = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** The id of the conversation that the prompt belongs to. */
  readonly conversation: string;
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The pick's expectation of the endpoint. */
  readonly prediction: Prediction;
  /** The time for which the prefix is believed cached after its last use, in milliseconds. */
  readonly ttlMs: number;
};

/** The measured size of a prompt, from the engine's `Started` event. */
export type Measured = {
  readonly inputTokens: number;
  /** The number of the prompt's tokens found in the cache; undefined where the engine does not report it. */
  readonly cachedInputTokens: number | undefined;
};

/** Keeps the beliefs about one model's placement true, by requests on their way and by the engines' measurements. */
export class PrefixLearning {
  /** The recent conversations on each endpoint. */
  readonly workingSets = new WorkingSets();
  readonly #placements: PlacementMap;
  #tokensPerByte = INITIAL_TOKENS_PER_BYTE;
  #answerTokens = INITIAL_ANSWER_TOKENS;
  #ownRequests = 0;
  #allRequests = 0;

  constructor(placements: PlacementMap) {
    this.#placements = placements;
  }

  /**
   * The measured tokens per byte of prompt, by the model's tokenizer on its callers' prompts; about a quarter before
   * the first measurement.
   */
  get tokensPerByte(): number {
    return this.#tokensPerByte;
  }

  /** The mean number of tokens of an answer; typical of an agent's turn before any has ended. */
  get answerTokens(): number {
    return this.#answerTokens;
  }

  /**
   * The likelihood, 0 to 1, that a conversation which this gateway did not place was placed by another one: 0 where
   * nearly all requests on the endpoints are this gateway's own, 1 before enough requests were counted.
   */
  get strangers(): number {
    if (this.#allRequests < ENOUGH_REQUESTS) return 1;
    const { none, sure } = OTHERS_SHARE;
    return Math.min(1, Math.max(0, (1 - this.#ownRequests / this.#allRequests - none) / (sure - none)));
  }

  /** Counts how many of the requests on some endpoints are this gateway's own. */
  looked(endpoints: readonly EndpointView[]): void {
    this.#ownRequests *= LOOKS_KEPT;
    this.#allRequests *= LOOKS_KEPT;
    for (const { activeRequests, running, waiting } of endpoints) {
      this.#ownRequests += activeRequests;
      this.#allRequests += running + waiting;
    }
  }

  /** Records the number of tokens of an answer. */
  answered(tokens: number): void {
    this.#answerTokens += LEARNING_RATE * (tokens - this.#answerTokens);
  }

  /**
   * Records that the prompt is on its way at the monotonic time `nowMs`, so that the next turn is expected to find it
   * there.
   */
  dispatched({ conversation, shape, address, prediction, ttlMs }: Placed, nowMs: number): void {
    this.workingSets.used(conversation, address, prediction.tokens, nowMs);
    const { tokensPerByte } = this;
    this.#placements.record(shape.boundaries, address, { tokensPerByte, ttlMs, nowMs, confirmed: false });
  }

  /**
   * Records that the endpoint has prefilled the prompt at the monotonic time `nowMs`. The engine's measurement replaces
   * the belief.
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

  /** Records that the call ended before the endpoint reported the prefill of the prompt. */
  abandoned({ shape, address }: Placed): void {
    this.#placements.withdraw(shape.boundaries, address);
  }
}
