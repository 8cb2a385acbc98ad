import { LRUCache } from "lru-cache";

/** The tokens per byte before a model has been measured: typical of English text and code. */
const INITIAL_TOKENS_PER_BYTE = 0.25;
/** The tokens of an answer before any was measured. */
const INITIAL_ANSWER_TOKENS = 400;
/** The share of each new measurement: the mean follows some 20 answers. */
const LEARNING_RATE = 0.05;
/** The most conversations that are counted as recent; the oldest are no longer counted beyond. */
const MAX_CONVERSATIONS = 50_000;

/** Milliseconds for which a conversation without a new turn is recent: nine of ten turns of agents come sooner. */
export const RECENT_MS = 300_000;

/** What a policy learns from the requests that it has sent. */
export class PrefixLearning {
  tokensPerByte = INITIAL_TOKENS_PER_BYTE;
  answerTokens = INITIAL_ANSWER_TOKENS;
  /** The number of recent conversations on each endpoint, kept with `#recent`: a pick must not count them anew. */
  readonly #counts = new Map<string, number>();
  /** The last turn of each recent conversation, the newest last turn first. */
  readonly #recent = new LRUCache<string, { readonly address: string; readonly atMs: number }>({
    // By size, as `max` would reserve the room of all entries in every cluster.
    maxSize: MAX_CONVERSATIONS,
    sizeCalculation: () => 1,
    // Also called when a conversation is replaced.
    dispose: ({ address }) => this.#count(address, -1),
  });

  /** Learns from a complete answer to a prompt of `bytes` bytes; an empty one has a template's tokens, but no ratio. */
  answered(inputTokens: number, bytes: number, answerTokens: number): void {
    if (inputTokens > 0 && bytes > 0) this.tokensPerByte += LEARNING_RATE * (inputTokens / bytes - this.tokensPerByte);
    this.answerTokens += LEARNING_RATE * (answerTokens - this.answerTokens);
  }

  /** Records that a turn of a conversation went to the endpoint at `address`. */
  picked(conversation: string, address: string, nowMs: number): void {
    this.#recent.set(conversation, { address, atMs: nowMs });
    this.#count(address, 1);
  }

  /** Returns how many recent conversations, beside a given one, had their last turn from this gateway on an endpoint. */
  othersOn(address: string, conversation: string, nowMs: number): number {
    for (const oldest of this.#recent.rkeys()) {
      if (nowMs - (this.#recent.peek(oldest)?.atMs ?? 0) < RECENT_MS) break;
      this.#recent.delete(oldest);
    }
    const own = this.#recent.peek(conversation)?.address === address ? 1 : 0;
    return (this.#counts.get(address) ?? 0) - own;
  }

  /** Drops the conversations of an endpoint that has left. */
  forget(address: string): void {
    for (const [conversation, last] of [...this.#recent])
      if (last.address === address) this.#recent.delete(conversation);
  }

  #count(address: string, more: 1 | -1): void {
    const count = (this.#counts.get(address) ?? 0) + more;
    if (count > 0) this.#counts.set(address, count);
    else this.#counts.delete(address);
  }
}
