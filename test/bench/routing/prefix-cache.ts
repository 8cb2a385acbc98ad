/** A piece of a prompt between two boundaries. Its id stands for everything before it, too. */
export type Segment = { readonly id: string; readonly tokens: number };

/**
 * A node's prefix cache: it is bounded in tokens, and evicts what was used longest ago, the end of a prompt before its
 * beginning.
 */
export class PrefixCache {
  readonly #capacity: number;
  /** The segments that are cached, in the order of use. */
  readonly #segments = new Map<string, number>();
  #tokens = 0;

  constructor(capacityTokens: number) {
    this.#capacity = capacityTokens;
  }

  /** Returns the tokens of the longest prefix that is cached. */
  cached(prompt: readonly Segment[]): number {
    let tokens = 0;
    for (const segment of prompt) {
      if (!this.#segments.has(segment.id)) break;
      tokens += segment.tokens;
    }
    return tokens;
  }

  use(prompt: readonly Segment[]): void {
    for (let index = prompt.length - 1; index >= 0; index -= 1) {
      const segment = prompt[index];
      if (!segment) continue;
      if (!this.#segments.delete(segment.id)) this.#tokens += segment.tokens;
      this.#segments.set(segment.id, segment.tokens);
    }
    for (const [id, tokens] of this.#segments) {
      if (this.#tokens <= this.#capacity) return;
      this.#segments.delete(id);
      this.#tokens -= tokens;
    }
  }
}
