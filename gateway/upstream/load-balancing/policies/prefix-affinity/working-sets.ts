import { LRUCache } from "lru-cache";

/**
 * The time for which a conversation belongs to the working set of its endpoint after its last use, in milliseconds: nine
 * of ten turns of coding agents come sooner.
 */
export const WORKING_SET_MS = 300_000;

/** The most conversations that are remembered. */
const MAX_CONVERSATIONS = 50_000;

/** The tokens of a conversation in the cache of the endpoint that had it last. */
type Use = { readonly address: string; readonly tokens: number; readonly atMs: number };

/**
 * Keeps account of how many tokens the conversations of late take up on each endpoint: those whose next turn is to be
 * expected. What else is in a cache may go at no loss. One of several gateways counts the turns that it placed itself.
 */
export class WorkingSets {
  /** The last use of each conversation. */
  readonly #uses = new LRUCache<string, Use>({
    max: MAX_CONVERSATIONS,
    // Also called where a conversation is set anew.
    dispose: ({ address, tokens }) => this.#count(address, -tokens),
  });
  readonly #tokens = new Map<string, number>();

  /** Notes that the endpoint at `address` has a conversation of `tokens` tokens now, and nobody else any more. */
  used(conversation: string, address: string, tokens: number, nowMs: number): void {
    // Picks ask for the tokens only where little of a prompt is cached: that may be hours ago.
    this.#dropOld(nowMs);
    this.#uses.set(conversation, { address, tokens, atMs: nowMs });
    this.#count(address, tokens);
  }

  /** The number of conversations that are remembered. */
  get size(): number {
    return this.#uses.size;
  }

  /** Returns the tokens of the conversations of late on an endpoint, at the monotonic time `nowMs`. */
  tokensOn(address: string, nowMs: number): number {
    this.#dropOld(nowMs);
    return this.#of(address);
  }

  /** Drops what is known of an endpoint that has left. */
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

  #of(address: string): number {
    return this.#tokens.get(address) ?? 0;
  }

  #count(address: string, more: number): void {
    const tokens = this.#of(address) + more;
    if (tokens > 0) this.#tokens.set(address, tokens);
    else this.#tokens.delete(address);
  }
}
