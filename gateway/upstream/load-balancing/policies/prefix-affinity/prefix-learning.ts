import { LRUCache } from "lru-cache";
import type { EndpointView } from "../../endpoint-view.ts";

/** The tokens per byte before a model has been measured: typical of English text and code. */
const INITIAL_TOKENS_PER_BYTE = 0.25;
const INITIAL_ANSWER_TOKENS = 400;
const LEARNING_RATE = 0.05;

/** The decay per pick of the counted requests: the last hundred picks dominate. */
const LOOKS_KEPT = 0.99;
/** The requests counted before a gateway can be considered the only one. */
const ENOUGH_REQUESTS = 20;
/** The share of other gateways' requests, from a value that stale reports explain to one that proves other gateways. */
const OTHERS_SHARE = { none: 0.1, sure: 0.4 };

/** Milliseconds of a conversation in its endpoint's working set: nine of ten turns of agents come sooner. */
export const WORKING_SET_MS = 300_000;
const MAX_CONVERSATIONS = 50_000;

export class PrefixLearning {
  readonly workingSets = new WorkingSets();
  tokensPerByte = INITIAL_TOKENS_PER_BYTE;
  answerTokens = INITIAL_ANSWER_TOKENS;
  #ownRequests = 0;
  #allRequests = 0;

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

  /** Learns from a complete answer to a prompt of `bytes` bytes; an empty one has a template's tokens, but no ratio. */
  answered(inputTokens: number, bytes: number, answerTokens: number): void {
    if (inputTokens > 0 && bytes > 0) this.tokensPerByte += LEARNING_RATE * (inputTokens / bytes - this.tokensPerByte);
    this.answerTokens += LEARNING_RATE * (answerTokens - this.answerTokens);
  }
}

/** The tokens of a conversation in the cache of its last endpoint. */
type Use = { readonly address: string; readonly tokens: number; readonly atMs: number };

/**
 * Counts the tokens of the recent conversations on each endpoint: those whose next turn is expected. Other cached
 * tokens can be evicted without loss. One of several gateways counts only the turns that it placed.
 */
export class WorkingSets {
  readonly #uses = new LRUCache<string, Use>({
    max: MAX_CONVERSATIONS,
    // Also called when a conversation is replaced.
    dispose: ({ address, tokens }) => this.#count(address, -tokens),
  });
  readonly #tokens = new Map<string, number>();

  /** Records that the endpoint at `address`, and no other, now holds a conversation of `tokens` tokens. */
  used(conversation: string, address: string, tokens: number, nowMs: number): void {
    // Picks read the tokens only where little of a prompt is cached, which may be hours ago.
    this.#dropOld(nowMs);
    this.#uses.set(conversation, { address, tokens, atMs: nowMs });
    this.#count(address, tokens);
  }

  /** Returns the tokens of the recent conversations on an endpoint, at the monotonic time `nowMs`. */
  tokensOn(address: string, nowMs: number): number {
    this.#dropOld(nowMs);
    return this.#tokens.get(address) ?? 0;
  }

  forget(address: string): void {
    for (const [conversation, use] of [...this.#uses]) if (use.address === address) this.#uses.delete(conversation);
  }

  #dropOld(nowMs: number): void {
    for (;;) {
      const [oldest] = this.#uses.rkeys();
      const use = oldest === undefined ? undefined : this.#uses.peek(oldest);
      if (oldest === undefined || use === undefined || nowMs - use.atMs < WORKING_SET_MS) return;
      this.#uses.delete(oldest);
    }
  }

  #count(address: string, more: number): void {
    const tokens = (this.#tokens.get(address) ?? 0) + more;
    if (tokens > 0) this.#tokens.set(address, tokens);
    else this.#tokens.delete(address);
  }
}
