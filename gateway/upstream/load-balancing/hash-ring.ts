import { hash } from "node:crypto";
import { BoundedMap } from "../../../deploy/runtime/memory/bounded-map.ts";

/** The number of points on the ring for an endpoint of the smallest weight. */
const POINTS_PER_WEIGHT = 100;
/** The bytes of a position on the ring: 48 bits are as many as a number holds exactly in whole bytes. */
const POSITION_BYTES = 6;
/** The positions that one digest gives. */
const POSITIONS_PER_DIGEST = 5;
/** The most keys whose positions are remembered, some 200 bytes each. */
const MAX_POSITIONS = 5_000;
/** What the room of a row of points grows by when it is full. */
const GROWTH = 1.25;

/** An endpoint that owns a part of the ring. */
export type RingMember = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The size of the member's part beside those of others; above 0. */
  readonly weight: number;
};

/** A member as the ring has it. `slot` is the number by which the row of points names it. */
type Owner = { readonly address: string; readonly points: number; readonly slot: number };

/** A place on the ring, which belongs to one owner. */
type Point = { readonly position: number; readonly owner: Owner };

/**
 * A ring of consistent hashing: a key belongs to the endpoints that follow it on the ring. An endpoint that joins or
 * leaves moves only the keys that are then, or were, its own. All gateways with the same members agree, as nothing but
 * the members goes in: neither their order, nor how the ring came to have them. A ring has all members of a cluster,
 * not only the healthy ones: an endpoint that is not to be picked is passed over.
 */
export class HashRing {
  readonly #row = new PointRow();
  readonly #owners = new Map<string, Owner>();
  /** The owners by their slots; a slot without an owner is free. */
  readonly #bySlot: (Owner | undefined)[] = [];
  readonly #freeSlots: number[] = [];
  /** Where the keys of late are on the ring: a conversation asks again with each of its turns. */
  readonly #positions = new BoundedMap<string, number>(MAX_POSITIONS);

  /** Makes the ring of these members. */
  constructor(members: Iterable<RingMember> = []) {
    this.update(members);
  }

  /** Replaces the members; what stays the same keeps its points. */
  update(members: Iterable<RingMember>): void {
    const wanted = pointsOf(members);
    const leaving = [...this.#owners.values()].filter(({ address, points }) => wanted.get(address) !== points);
    for (const owner of leaving) this.#leave(owner);
    if (leaving.length > 0) this.#row.takeOut(leaving.flatMap(pointsOn).sort(inOrder));
    const joining = [...wanted].filter(([address]) => !this.#owners.has(address));
    const joined = joining.map(([address, points]) => this.#join(address, points));
    if (joined.length > 0) this.#row.putIn(joined.flatMap(pointsOn).sort(inOrder), (slot) => this.#bySlot[slot]);
  }

  /**
   * Yields the addresses of all members in the order in which `key` prefers them. It is to be walked as far as needed
   * before `update` is called again.
   */
  *ownersOf(key: string): Generator<string> {
    const row = this.#row;
    const members = this.#owners.size;
    const seen = new Set<number>();
    const start = row.firstFrom(this.#positionOf(key));
    for (let step = 0; step < row.length && seen.size < members; step += 1) {
      const slot = row.slotAt((start + step) % row.length);
      const owner = this.#bySlot[slot];
      if (!owner || seen.has(slot)) continue;
      seen.add(slot);
      yield owner.address;
    }
  }

  #positionOf(key: string): number {
    const position = this.#positions.get(key) ?? positionOf(key);
    this.#positions.set(key, position);
    return position;
  }

  #join(address: string, points: number): Owner {
    const owner = { address, points, slot: this.#freeSlots.pop() ?? this.#bySlot.length };
    this.#owners.set(address, owner);
    this.#bySlot[owner.slot] = owner;
    return owner;
  }

  #leave({ address, slot }: Owner): void {
    this.#owners.delete(address);
    this.#bySlot[slot] = undefined;
    this.#freeSlots.push(slot);
  }
}

/**
 * The points of a ring in their order. A member that joins or leaves moves the others' points in place and in blocks, at
 * the cost of copying memory: with a thousand members these are a hundred thousand, and a loop over them that runs once
 * in an hour is never compiled, just as a new row for each change would be megabytes of garbage.
 */
class PointRow {
  /** The positions of all points, the smallest one first, and behind them room for more. */
  #positions = new Float64Array();
  /** The slot of the owner of the point at the same index. */
  #slots = new Uint32Array();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  slotAt(index: number): number {
    return this.#slots[index] ?? 0;
  }

  /**
   * Returns the index of the first point from `low` on that is not before `position`; `high` where there is none before
   * that index.
   */
  firstFrom(position: number, low = 0, high = this.#length): number {
    let [from, to] = [low, high];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#positions[middle] ?? 0) < position) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** Takes points out, which are in their order and all there. */
  takeOut(points: readonly Point[]): void {
    let from = 0;
    let kept = 0;
    const keepUpTo = (end: number) => {
      this.#move(from, end, kept);
      kept += end - from;
    };
    for (const { position, owner } of points) {
      let at = this.firstFrom(position, from);
      while (at < this.#length && this.slotAt(at) !== owner.slot) at += 1;
      keepUpTo(at);
      from = at + 1;
    }
    keepUpTo(this.#length);
    this.#length = kept;
  }

  /** Puts points in, which are in their order; `ownerOf` tells whom a slot belongs to. */
  putIn(points: readonly Point[], ownerOf: (slot: number) => Owner | undefined): void {
    // From the end on, so that each block of points behind a new one is moved once.
    let end = this.#length;
    let free = this.#length + points.length;
    this.#reserve(free);
    this.#length = free;
    for (const { position, owner } of points.toReversed()) {
      let at = this.firstFrom(position, 0, end);
      while (at < end && this.#positions[at] === position && isBefore(ownerOf(this.slotAt(at)), owner)) at += 1;
      free -= end - at;
      this.#move(at, end, free);
      end = at;
      free -= 1;
      this.#positions[free] = position;
      this.#slots[free] = owner.slot;
    }
  }

  #move(from: number, end: number, to: number): void {
    this.#positions.copyWithin(to, from, end);
    this.#slots.copyWithin(to, from, end);
  }

  #reserve(length: number): void {
    if (length <= this.#positions.length) return;
    const capacity = Math.max(length, Math.ceil(GROWTH * this.#positions.length));
    const [positions, slots] = [new Float64Array(capacity), new Uint32Array(capacity)];
    positions.set(this.#positions.subarray(0, this.#length));
    slots.set(this.#slots.subarray(0, this.#length));
    this.#positions = positions;
    this.#slots = slots;
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
  return a.position - b.position || (isBefore(a.owner, b.owner) ? -1 : 1);
}

/** Returns whether an owner comes before another one that has a point at the same position. */
function isBefore(one: Owner | undefined, other: Owner): boolean {
  return one !== undefined && one.address < other.address;
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
