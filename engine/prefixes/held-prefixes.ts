import { LRUCache } from "lru-cache";

/** The most digests that are known of at one time: some 15 MB of them. */
const MAX_PREFIXES = 65_536;

/** What a node holds of the prefix that a digest names. */
export type HeldTokens = {
  /** The id of the model whose prompts have the digest. */
  readonly model: string;
  /** The tokens up to the place of the digest that any prompt with it can use again. */
  readonly tokens: number;
  /** The tokens that are held behind the place, of the newest prompt and answer that went on there. */
  readonly tailTokens: number;
};

/** The KV tokens of a node, for all its models together. */
export type KvTokens = {
  /** The tokens that caches and running generations take up. */
  readonly used: number;
  /** The tokens that there is room for; 0 where not known. */
  readonly total: number;
};

/** Hears of a prefix that is held, held otherwise or held no longer. */
export type PrefixListener = (digest: string, model: string) => void;

/**
 * Knows which prefixes a node holds in its cache, by their digests, and tells of every change. It is bounded: of more
 * prefixes than it can know it forgets those of which nothing was said for longest, as if they were held no longer.
 */
export class HeldPrefixes {
  readonly #kv: () => KvTokens;
  readonly #held: LRUCache<string, HeldTokens>;
  readonly #listeners = new Set<PrefixListener>();

  /** Begins with nothing held. `kv` is asked for the KV tokens of the node whenever they are told. */
  constructor(kv: () => KvTokens, maxPrefixes = MAX_PREFIXES) {
    this.#kv = kv;
    this.#held = new LRUCache({
      max: maxPrefixes,
      disposeAfter: (held, digest, reason) => {
        if (reason !== "set") this.#tell(digest, held);
      },
    });
  }

  /** The KV tokens of the node now. */
  get kv(): KvTokens {
    return this.#kv();
  }

  /** The number of prefixes that are known to be held. */
  get size(): number {
    return this.#held.size;
  }

  /** Returns what is held of a prefix; undefined where nothing is. */
  get(digest: string): HeldTokens | undefined {
    return this.#held.peek(digest);
  }

  /** Returns the digests of all prefixes of a model that are held, those that were used last behind the others. */
  digestsOf(model: string): readonly string[] {
    return [...this.#held.rkeys()].filter((digest) => this.#held.peek(digest)?.model === model);
  }

  /** Notes what is held of a prefix from now on. */
  hold(digest: string, held: HeldTokens): void {
    const before = this.#held.peek(digest);
    this.#held.set(digest, held);
    if (before?.tokens !== held.tokens || before.tailTokens !== held.tailTokens) this.#tell(digest, held);
  }

  /** Notes that a prefix is held no longer. */
  drop(digest: string): void {
    this.#held.delete(digest);
  }

  /** Calls the listener at every change. Returns the function that ends this. */
  onChange(listener: PrefixListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(digest: string, { model }: HeldTokens): void {
    for (const listener of this.#listeners) listener(digest, model);
  }
}
