import { createHash } from "node:crypto";

/** The number of points on the ring for an endpoint of weight 1. */
const POINTS_PER_WEIGHT = 100;
/** The bytes of a position on the ring: 48 bits are as many as a number holds exactly in whole bytes. */
const POSITION_BYTES = 6;

/** An endpoint that owns a part of the ring. */
export type RingMember = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The size of the member's part beside those of others; above 0. */
  readonly weight: number;
};

/**
 * A ring of consistent hashing: a key belongs to the endpoints that follow it on the ring. An endpoint that joins or
 * leaves moves only the keys that are then, or were, its own. All gateways with the same members agree, as nothing but
 * the members goes in. A ring is built from all members of a cluster, not from the healthy ones: an endpoint that is
 * not to be picked is passed over.
 */
export class HashRing {
  readonly #points: readonly { readonly position: number; readonly address: string }[];
  readonly #size: number;

  constructor(members: readonly RingMember[]) {
    this.#size = members.length;
    this.#points = members
      .flatMap(({ address, weight }) =>
        Array.from({ length: Math.max(1, Math.round(POINTS_PER_WEIGHT * weight)) }, (_, index) => ({
          position: positionOf(`${address}#${index}`),
          address,
        })),
      )
      .sort((a, b) => a.position - b.position || (a.address < b.address ? -1 : 1));
  }

  /**
   * Yields the addresses of all members in the order in which `key` prefers them. It is to be walked as far as needed.
   */
  *ownersOf(key: string): Generator<string> {
    const seen = new Set<string>();
    const start = this.#firstFrom(positionOf(key));
    for (let step = 0; step < this.#points.length && seen.size < this.#size; step += 1) {
      const point = this.#points[(start + step) % this.#points.length];
      if (!point || seen.has(point.address)) continue;
      seen.add(point.address);
      yield point.address;
    }
  }

  #firstFrom(position: number): number {
    let low = 0;
    let high = this.#points.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#points[middle]?.position ?? 0) < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Returns a number for a text that is the same everywhere, and even over [0, 1) for all texts together. */
export function hashShare(text: string): number {
  return positionOf(text) / 2 ** (8 * POSITION_BYTES);
}

function positionOf(text: string): number {
  return createHash("sha256").update(text).digest().readUIntBE(0, POSITION_BYTES);
}
