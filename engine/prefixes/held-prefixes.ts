import { LRUCache } from "lru-cache";

/** The most tracked digests: about 15 MB. */
const MAX_PREFIXES = 65_536;

/** The cached tokens of the prefix that a digest names. */
export type HeldTokens = {
  readonly model: string;
  /** The tokens up to the digest's position, which any prompt with this digest can reuse. */
  readonly tokens: number;
  /** The cached tokens behind the position, of the newest prompt and answer that continued there. */
  readonly tailTokens: number;
};

/** The KV tokens of a node, for all its models together. */
export type KvTokens = {
  /** The tokens in caches and running generations. */
  readonly used: number;
  /** The capacity in tokens; 0 if unknown. */
  readonly total: number;
};

/** Called when a cached prefix is added, changed or evicted. */
export type PrefixListener = (digest: string, model: string) => void;

/**
 * Tracks the cached prefixes of a node by their digests, and reports every change. It is bounded: beyond the limit, the
 * least recently updated prefixes are dropped as if they were evicted.
 */
export class HeldPrefixes {
  readonly #kv: () => KvTokens;
  readonly #held: LRUCache<string, HeldTokens>;
  readonly #listeners = new Set<PrefixListener>();

  /** Starts empty. `kv` returns the current KV tokens of the node. */
  constructor(kv: () => KvTokens, maxPrefixes = MAX_PREFIXES) {
    this.#kv = kv;
    this.#held = new LRUCache({
      max: maxPrefixes,
      disposeAfter: (held, digest, reason) => {
        if (reason !== "set") this.#tell(digest, held);
      },
    });
  }

  get kv(): KvTokens {
    return this.#kv();
  }

  get size(): number {
    return this.#held.size;
  }

  get(digest: string): HeldTokens | undefined {
    return this.#held.peek(digest);
  }

  /** Returns the digests of all cached prefixes of a model, least recently updated first. */
  digestsOf(model: string): readonly string[] {
    return [...this.#held.rkeys()].filter((digest) => this.#held.peek(digest)?.model === model);
  }

  hold(digest: string, held: HeldTokens): void {
    const before = this.#held.peek(digest);
    this.#held.set(digest, held);
    if (before?.tokens !== held.tokens || before.tailTokens !== held.tailTokens) this.#tell(digest, held);
  }

  drop(digest: string): void {
    this.#held.delete(digest);
  }

  /** Calls the listener at every change. Returns the function that unsubscribes it. */
  onChange(listener: PrefixListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(digest: string, { model }: HeldTokens): void {
    for (const listener of this.#listeners) listener(digest, model);
  }
}
