/** The reason why an answer is not kept: no room for it, no room left to its tenant, or a process that is in trouble. */
export type NotKept = "no_room" | "no_room_for_key" | "overload";

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
  #bytes = 0;
  #answers = 0;

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
    return this.#answers;
  }

  /** Takes room for an answer of a tenant, of `bytes` at first. Returns the reason where there is none. */
  keep(tenant: string, bytes: number): KeptAnswer | NotKept {
    const lack = this.#options.inTrouble?.() ? "overload" : this.#lacks(tenant, bytes);
    if (lack) return lack;
    let held = bytes;
    this.#answers += 1;
    this.#take(tenant, bytes);
    return {
      grow: (more) => {
        const found = this.#lacks(tenant, more);
        if (found) return found;
        held += more;
        this.#take(tenant, more);
        return undefined;
      },
      release: () => {
        if (held === 0) return;
        this.#answers -= 1;
        this.#take(tenant, -held);
        held = 0;
      },
    };
  }

  #lacks(tenant: string, bytes: number): NotKept | undefined {
    const { maxBytes, maxShareOfKey } = this.#options;
    const ofTenant = this.#bytesOf.get(tenant) ?? 0;
    if (this.#bytes + bytes > maxBytes) return "no_room";
    return ofTenant > 0 && ofTenant + bytes > maxShareOfKey * maxBytes ? "no_room_for_key" : undefined;
  }

  #take(tenant: string, bytes: number): void {
    this.#bytes += bytes;
    const ofTenant = (this.#bytesOf.get(tenant) ?? 0) + bytes;
    if (ofTenant > 0) this.#bytesOf.set(tenant, ofTenant);
    else this.#bytesOf.delete(tenant);
  }
}
