/**
 * The reason why an answer is not kept, or no longer: no room for it, no room left to its tenant, a process that is in
 * trouble as it begins (`overload`), or one that was so short of memory that it was let go of (`released`).
 */
export type NotKept = "no_room" | "no_room_for_key" | "overload" | "released";

/** The share of the process' memory that kept answers get where the configuration gives them no size. */
const MEMORY_SHARE = 0.125;
/** The most that kept answers get where the configuration gives them no size, in bytes. */
const MAX_BYTES = 268_435_456;

/** Returns the bytes that kept answers get where the configuration gives them none, of a process with `memoryBytes`. */
export function continuationBytes(memoryBytes: number): number {
  return Math.floor(Math.min(MAX_BYTES, MEMORY_SHARE * memoryBytes));
}

/** The bounds of what is kept of running answers. */
export type ContinuationRoomOptions = {
  /** The most bytes that all answers together may take up; 0 keeps none. */
  readonly maxBytes: number;
  /** The share of these bytes, above 0 to 1, that the answers of one tenant may take up. A single one may be larger. */
  readonly maxShareOfKey: number;
  /** Returns whether the process is in trouble, so that no further answer is to be kept. Default: it never is. */
  readonly inTrouble?: () => boolean;
  /** Called whenever an answer finds no room among those of all tenants. Default: nobody is told. */
  readonly onFull?: () => void;
};

/** An answer that takes up room. */
type Held = {
  readonly tenant: string;
  /** The room that the answer takes up, in bytes. */
  bytes: number;
  /** Lets go of the answer. Returns false where that cannot be at the moment, as another engine is taking it up. */
  readonly letGo: () => boolean;
};

/** The room of one answer. */
export type KeptAnswer = {
  /** Takes `bytes` more. Returns why there is no room for them; undefined where they are taken. */
  grow(bytes: number): NotKept | undefined;
  /** Gives everything back. A second call does nothing. */
  release(): void;
};

/** Counts the memory of what is kept of running answers so that another engine can go on with them. */
export class ContinuationRoom {
  readonly #options: ContinuationRoomOptions;
  readonly #bytesOf = new Map<string, number>();
  readonly #held = new Set<Held>();
  #bytes = 0;

  /** Keeps nothing at first. */
  constructor(options: ContinuationRoomOptions) {
    this.#options = options;
  }

  /** Whether any answer may be kept at all. */
  get isOpen(): boolean {
    return this.#options.maxBytes > 0;
  }

  /** The most bytes that all answers together may take up. */
  get maxBytes(): number {
    return this.#options.maxBytes;
  }

  /** The bytes that all answers together take up now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The number of answers that are kept now. */
  get answers(): number {
    return this.#held.size;
  }

  /**
   * Takes room for an answer of a tenant, of `bytes` at first. Returns the reason where there is none. `letGo` is called
   * when memory runs short: it has to release the room, or to return false where the answer cannot be let go of now.
   */
  keep(tenant: string, bytes: number, letGo: () => boolean): KeptAnswer | NotKept {
    const lack = this.#options.inTrouble?.() ? "overload" : this.#lacks(tenant, bytes);
    if (lack) return lack;
    const held: Held = { tenant, bytes, letGo };
    this.#held.add(held);
    this.#take(tenant, bytes);
    return {
      grow: (more) => {
        const found = this.#lacks(tenant, more);
        if (found) return found;
        held.bytes += more;
        this.#take(tenant, more);
        return undefined;
      },
      release: () => {
        if (this.#held.delete(held)) this.#take(tenant, -held.bytes);
      },
    };
  }

  /**
   * Lets go of answers, the largest first, until `share` of the bytes that are kept has been given back, from 0 to 1.
   * Returns how many answers were let go of.
   */
  letGoOf(share: number): number {
    const enough = (1 - share) * this.#bytes;
    let answers = 0;
    for (const { letGo } of [...this.#held].sort((a, b) => b.bytes - a.bytes)) {
      if (this.#bytes <= enough) break;
      if (letGo()) answers += 1;
    }
    return answers;
  }

  #lacks(tenant: string, bytes: number): NotKept | undefined {
    const { maxBytes, maxShareOfKey } = this.#options;
    const ofTenant = this.#bytesOf.get(tenant) ?? 0;
    if (this.#bytes + bytes > maxBytes) {
      this.#options.onFull?.();
      return "no_room";
    }
    return ofTenant > 0 && ofTenant + bytes > maxShareOfKey * maxBytes ? "no_room_for_key" : undefined;
  }

  #take(tenant: string, bytes: number): void {
    this.#bytes += bytes;
    const ofTenant = (this.#bytesOf.get(tenant) ?? 0) + bytes;
    if (ofTenant > 0) this.#bytesOf.set(tenant, ofTenant);
    else this.#bytesOf.delete(tenant);
  }
}
