import type { PromptShape } from "../../boundary-hashes.ts";
import type { EndpointView } from "../../endpoint-view.ts";
import type { PlacementMap } from "./placement-map.ts";
import type { Prediction } from "./prefix-score.ts";
import { WorkingSets } from "./working-sets.ts";

/** The tokens to a byte until a model has been measured: about what English and code come to. */
const INITIAL_TOKENS_PER_BYTE = 0.25;
/** The tokens of an answer until any has ended. */
const INITIAL_ANSWER_TOKENS = 400;
/** The share of a new measurement in what was learned. */
const LEARNING_RATE = 0.05;
/**
 * The share of the expected cached tokens below which the cached ones refute the belief that the expectation rested on.
 */
const REFUTING_SHARE = 0.5;

/** The share that earlier looks keep in how many requests are others' at each further one: the last hundred or so count. */
const LOOKS_KEPT = 0.99;
/** The requests that have to have been seen before anybody is thought to be alone. */
const ENOUGH_REQUESTS = 20;
/** The share of all requests from which on others' are no accident of reports that are a little old. */
const OTHERS_SHARE = { none: 0.1, sure: 0.4 };

/** A prompt on one endpoint, from the pick to what the engine said of it. */
export type Placed = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** The name of the conversation that the prompt belongs to. */
  readonly conversation: string;
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
  /** The conversations of late on each endpoint. */
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
   * The tokens to a byte of prompt, as the model's tokenizer makes them of what its callers send; about a quarter until
   * it was measured.
   */
  get tokensPerByte(): number {
    return this.#tokensPerByte;
  }

  /** The tokens of an answer, on the average; about those of an agent's turn until any has ended. */
  get answerTokens(): number {
    return this.#answerTokens;
  }

  /**
   * The likelihood, 0 to 1, that a conversation which this gateway did not place was placed by another one: 0 where
   * nearly all requests on the endpoints are this gateway's own, 1 while nothing is known.
   */
  get strangers(): number {
    if (this.#allRequests < ENOUGH_REQUESTS) return 1;
    const { none, sure } = OTHERS_SHARE;
    return Math.min(1, Math.max(0, (1 - this.#ownRequests / this.#allRequests - none) / (sure - none)));
  }

  /** Notes how many of the requests on some endpoints are this gateway's own. */
  looked(endpoints: readonly EndpointView[]): void {
    this.#ownRequests *= LOOKS_KEPT;
    this.#allRequests *= LOOKS_KEPT;
    for (const { activeRequests, running, waiting } of endpoints) {
      this.#ownRequests += activeRequests;
      this.#allRequests += running + waiting;
    }
  }

  /** Notes how many tokens an answer had. */
  answered(tokens: number): void {
    this.#answerTokens += LEARNING_RATE * (tokens - this.#answerTokens);
  }

  /**
   * Notes that the prompt is on its way at the monotonic time `nowMs`, so that the next turn is expected to find it
   * there.
   */
  dispatched({ conversation, shape, address, prediction, ttlMs }: Placed, nowMs: number): void {
    this.workingSets.used(conversation, address, prediction.tokens, nowMs);
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
