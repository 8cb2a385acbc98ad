import { BoundedMap } from "../../deploy/runtime/memory/bounded-map.ts";

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
  readonly #maxPrefixes: number;
  readonly #held = new BoundedMap<string, HeldTokens>();
  readonly #listeners = new Set<PrefixListener>();

  /** Starts empty. `kv` returns the current KV tokens of the node. */
  constructor(kv: () => KvTokens, maxPrefixes = MAX_PREFIXES) {
    this.#kv = kv;
    this.#maxPrefixes = maxPrefixes;
  }

  get kv(): KvTokens {
    return this.#kv();
  }

  get size(): number {
    return this.#held.size;
  }

  get(digest: string): HeldTokens | undefined {
    return this.#held.get(digest);
  }

  /** Returns the digests of all cached prefixes of a model, least recently updated first. */
  digestsOf(model: string): readonly string[] {
    const digests = [...this.#held.newestFirst()].flatMap(([digest, held]) => (held.model === model ? [digest] : []));
    return digests.reverse();
  }

  hold(digest: string, held: HeldTokens): void {
    const before = this.#held.get(digest);
    this.#held.set(digest, held);
    if (before?.tokens !== held.tokens || before.tailTokens !== held.tailTokens) this.#tell(digest, held);
    const { oldest, size } = this.#held;
    if (oldest && size > this.#maxPrefixes) this.drop(oldest.key);
  }

  drop(digest: string): void {
    const held = this.#held.get(digest);
    if (!held) return;
    this.#held.delete(digest);
    this.#tell(digest, held);
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
