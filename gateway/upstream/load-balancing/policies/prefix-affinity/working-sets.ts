import { LRUCache } from "lru-cache";

/**
 * The time for which a conversation belongs to the working set of its endpoint after its last use, in milliseconds:
 * nine of ten turns of coding agents come sooner.
 */
export const WORKING_SET_MS = 300_000;

const MAX_CONVERSATIONS = 50_000;

/** The tokens of a conversation in the cache of its last endpoint. */
type Use = { readonly address: string; readonly tokens: number; readonly atMs: number };

/**
 * Counts the tokens of the recent conversations on each endpoint: those whose next turn is expected. Other cached
 * tokens can be evicted without loss. One of several gateways counts only the turns that it placed.
 */
export class WorkingSets {
  /** The last use of each conversation. */
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

  get size(): number {
    return this.#uses.size;
  }

  /** Returns the tokens of the recent conversations on an endpoint, at the monotonic time `nowMs`. */
  tokensOn(address: string, nowMs: number): number {
    this.#dropOld(nowMs);
    return this.#of(address);
  }

  /** Removes the records of an endpoint that has left. */
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
