import { hash } from "node:crypto";
import { TurnSlices } from "../../../deploy/runtime/time/turn-slices.ts";

/** The number of points on the ring for an endpoint of the smallest weight. */
const POINTS_PER_WEIGHT = 100;
/** The bytes of a position on the ring: 48 bits are as many as a number holds exactly in whole bytes. */
const POSITION_BYTES = 6;
/** The positions that one digest gives. */
const POSITIONS_PER_DIGEST = 5;
/** The number of members that join or leave the ring in one turn of the event loop; a thousand others cost little. */
const MEMBERS_PER_TURN = 32;

/** An endpoint that owns a part of the ring. */
export type RingMember = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The size of the member's part beside those of others; above 0. */
  readonly weight: number;
};

/** A member as the ring has it. */
type Owner = { readonly address: string; readonly points: number; isLeaving: boolean };

/** A place on the ring, which belongs to one owner. */
type Point = { readonly position: number; readonly owner: Owner };

/**
 * A ring of consistent hashing: a key belongs to the endpoints that follow it on the ring. An endpoint that joins or
 * leaves moves only the keys that are then, or were, its own. All gateways with the same members agree, as nothing but
 * the members goes in: neither their order, nor how the ring came to have them. A ring has all members of a cluster,
 * not only the healthy ones: an endpoint that is not to be picked is passed over.
 */
export class HashRing {
  /** The positions of all points, the smallest one first, and beside them whom each belongs to. */
  #positions = new Float64Array();
  #ownersByPoint: readonly Owner[] = [];
  readonly #owners = new Map<string, Owner>();
  /** The number of points that each member shall have. */
  #wanted: ReadonlyMap<string, number> = new Map();
  readonly #slices = new TurnSlices(1);
  #isChanging = false;

  /** Makes the ring of these members, complete at once. */
  constructor(members: Iterable<RingMember> = []) {
    this.#wanted = pointsOf(members);
    let more = true;
    while (more) more = this.#changeSome();
  }

  /**
   * Takes other members. A few changes are made at once; of many the others follow in the next turns of the event loop,
   * in which the ring serves as far as it is.
   */
  update(members: Iterable<RingMember>): void {
    this.#wanted = pointsOf(members);
    if (!this.#isChanging) this.#change();
  }

  /**
   * Yields the addresses of all members in the order in which `key` prefers them. It is to be walked as far as needed.
   */
  *ownersOf(key: string): Generator<string> {
    const [positions, owners] = [this.#positions, this.#ownersByPoint];
    const members = this.#owners.size;
    const seen = new Set<Owner>();
    const start = firstFrom(positions, positionOf(key));
    for (let step = 0; step < owners.length && seen.size < members; step += 1) {
      const owner = owners[(start + step) % owners.length];
      if (!owner || seen.has(owner)) continue;
      seen.add(owner);
      yield owner.address;
    }
  }

  #change(): void {
    this.#isChanging = true;
    this.#slices.run(() => {
      if (this.#changeSome()) this.#change();
      else this.#isChanging = false;
    });
  }

  /** Brings some members closer to what is wanted. Returns whether there may be more to do. */
  #changeSome(): boolean {
    const joining: Owner[] = [];
    let changes = 0;
    for (const [address, owner] of this.#owners) {
      if (changes >= MEMBERS_PER_TURN) break;
      if (this.#wanted.get(address) === owner.points) continue;
      owner.isLeaving = true;
      this.#owners.delete(address);
      changes += 1;
    }
    for (const [address, points] of this.#wanted) {
      if (joining.length >= MEMBERS_PER_TURN) break;
      if (this.#owners.has(address)) continue;
      const owner = { address, points, isLeaving: false };
      this.#owners.set(address, owner);
      joining.push(owner);
    }
    if (changes + joining.length > 0) this.#merge(joining.flatMap(pointsOn).sort(inOrder));
    return Math.max(changes, joining.length) >= MEMBERS_PER_TURN;
  }

  /** Makes one row of the points of those that stay and of the new ones. */
  #merge(added: readonly Point[]): void {
    const positions = new Float64Array(this.#positions.length + added.length);
    const owners: Owner[] = [];
    const put = (position: number, owner: Owner) => {
      positions[owners.length] = position;
      owners.push(owner);
    };
    let next = 0;
    for (let index = 0; index < this.#ownersByPoint.length; index += 1) {
      const owner = this.#ownersByPoint[index];
      if (!owner || owner.isLeaving) continue;
      const point = { position: this.#positions[index] ?? 0, owner };
      for (let first = added[next]; first && inOrder(first, point) < 0; first = added[next]) {
        put(first.position, first.owner);
        next += 1;
      }
      put(point.position, owner);
    }
    for (const { position, owner } of added.slice(next)) put(position, owner);
    this.#positions = positions.subarray(0, owners.length);
    this.#ownersByPoint = owners;
  }
}

/** Returns how many points each member has. Only the relation of the weights counts: the smallest one is 1. */
function pointsOf(members: Iterable<RingMember>): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  let smallest = Number.POSITIVE_INFINITY;
  for (const { address, weight } of members) {
    weights.set(address, weight);
    smallest = Math.min(smallest, weight);
  }
  const points = (weight: number) => Math.round((POINTS_PER_WEIGHT * weight) / smallest);
  return new Map([...weights].map(([address, weight]) => [address, points(weight)]));
}

/** Returns the points of an owner, which nothing but its address and their number decides. */
function pointsOn(owner: Owner): Point[] {
  const points: Point[] = [];
  for (let block = 0; points.length < owner.points; block += 1) {
    const digest = digestOf(`${owner.address}#${block}`);
    const left = Math.min(POSITIONS_PER_DIGEST, owner.points - points.length);
    for (let at = 0; at < left; at += 1)
      points.push({ position: digest.readUIntBE(at * POSITION_BYTES, POSITION_BYTES), owner });
  }
  return points;
}

function inOrder(a: Point, b: Point): number {
  return a.position - b.position || (a.owner.address < b.owner.address ? -1 : 1);
}

/** Returns the index of the first position that is not before `position`; their number where there is none. */
function firstFrom(positions: Float64Array, position: number): number {
  let low = 0;
  let high = positions.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((positions[middle] ?? 0) < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns a number for a text that is the same everywhere, and even over [0, 1) for all texts together. */
export function hashShare(text: string): number {
  return positionOf(text) / 2 ** (8 * POSITION_BYTES);
}

function positionOf(text: string): number {
  return digestOf(text).readUIntBE(0, POSITION_BYTES);
}

function digestOf(text: string): Buffer {
  return hash("sha256", text, "buffer");
}
