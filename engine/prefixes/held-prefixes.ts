import { LRUCache } from "lru-cache";
import { AnnouncementCheck, type Contradiction, type PromptFinding } from "./announcement-check.ts";

/** The most tracked digests: about 15 MB. */
const MAX_PREFIXES = 65_536;

export type HeldTokens = {
  readonly model: string;
  /** The tokens up to the digest's position, which any prompt with this digest can reuse. */
  readonly tokens: number;
  /** The cached tokens behind the position, of the newest prompt and answer that continued there. */
  readonly tailTokens: number;
  /** The last of all these that lie below the accelerator's memory, from where the engine loads them. Default: 0. */
  readonly lowerTokens?: number;
};

export type KvTokens = {
  readonly used: number;
  /** The capacity in tokens; 0 if unknown. */
  readonly total: number;
};

export type PrefixListener = (digest: string, model: string) => void;

/** A finding of the engine that contradicts the announcements, or changes whether there are any. */
export type Verdict = {
  readonly finding: PromptFinding;
  readonly contradiction: Contradiction | undefined;
  readonly isAnnounced: boolean;
  /** Whether that has changed. */
  readonly hasTurned: boolean;
};

/** The cached prefixes of a node by their digests. Beyond its bound the least recently updated ones are dropped. */
export class HeldPrefixes {
  readonly #kv: () => KvTokens;
  readonly #held: LRUCache<string, HeldTokens>;
  readonly #listeners = new Set<PrefixListener>();
  readonly #judges = new Set<(verdict: Verdict) => void>();
  readonly #check = new AnnouncementCheck();
  #isWithheld = false;

  constructor(kv: () => KvTokens, maxPrefixes = MAX_PREFIXES) {
    this.#kv = kv;
    this.#held = new LRUCache({
      // By size, as `max` would reserve the room of all entries at once.
      maxSize: maxPrefixes,
      sizeCalculation: () => 1,
      disposeAfter: (held, digest, reason) => {
        if (reason !== "set") this.#notify(digest, held);
      },
    });
  }

  get kv(): KvTokens {
    return this.#kv();
  }

  /** Whether the prefixes are announced to gateways: not while the engine's findings contradict them. */
  get isAnnounced(): boolean {
    return !this.#isWithheld && this.#check.isTrusted;
  }

  /** Announces nothing until `announce`: it is not known yet whether the prefixes are true. */
  withhold(): void {
    this.#isWithheld = true;
  }

  announce(): void {
    this.#isWithheld = false;
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
    const { tokens, tailTokens, lowerTokens } = held;
    if (before?.tokens === tokens && before.tailTokens === tailTokens && before.lowerTokens === lowerTokens) return;
    this.#notify(digest, held);
  }

  drop(digest: string): void {
    this.#held.delete(digest);
  }

  /** Calls the listener at every change. Returns the function that unsubscribes it. */
  onChange(listener: PrefixListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  found(finding: PromptFinding): void {
    const before = this.isAnnounced;
    const contradiction = this.#check.take(finding);
    const { isAnnounced } = this;
    const hasTurned = isAnnounced !== before;
    if (!contradiction && !hasTurned) return;
    for (const listener of this.#judges) listener({ finding, contradiction, isAnnounced, hasTurned });
  }

  /** Calls the listener at every contradiction, and whenever the prefixes are announced again or no more. */
  onVerdict(listener: (verdict: Verdict) => void): () => void {
    this.#judges.add(listener);
    return () => this.#judges.delete(listener);
  }

  #notify(digest: string, { model }: HeldTokens): void {
    for (const listener of this.#listeners) listener(digest, model);
  }
}
