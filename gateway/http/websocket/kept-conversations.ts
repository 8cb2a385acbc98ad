import type { BodyBudget, Evictable } from "../../overload/body-budget.ts";

/** Bytes that an entry takes besides its items. */
const ENTRY_BYTES = 512;
/** Share of the bytes left by other tenants that the entries of one tenant may take, as with bodies. */
const TENANT_SHARE = 0.5;

/** The items of a conversation, until they are dropped. */
export type Kept = {
  /** JSON text, separated by commas; undefined once dropped. */
  readonly items: Buffer | undefined;
  drop(): void;
};

class Entry implements Kept {
  readonly tenant: string;
  readonly bytes: number;
  items: Buffer | undefined;
  readonly drop: () => void;

  constructor(tenant: string, items: Buffer, drop: (entry: Entry) => void) {
    this.tenant = tenant;
    this.items = items;
    this.bytes = items.length + ENTRY_BYTES;
    this.drop = () => drop(this);
  }
}

/**
 * The conversations of all open WebSockets: a cache in the memory of bodies, to which it yields. An entry may be dropped
 * at any time, those used least recently first; its socket then asks for the whole conversation.
 */
export class KeptConversations implements Evictable {
  readonly #budget: BodyBudget;
  /** Those used least recently first. */
  readonly #entries = new Set<Entry>();
  readonly #bytesOf = new Map<string, number>();
  bytes = 0;

  constructor(budget: BodyBudget) {
    this.#budget = budget;
    budget.yields(this);
  }

  keep(tenant: string, items: Buffer): Kept {
    const entry = new Entry(tenant, items, (dropped) => this.#remove(dropped));
    this.#entries.add(entry);
    this.#count(entry, entry.bytes);
    // A tenant makes room among its own entries first: others' conversations are not its to drop.
    for (const old of this.#entries) {
      if (this.#ofTenant(tenant) <= TENANT_SHARE * this.#leftBy(tenant)) break;
      if (old.tenant === tenant) this.#remove(old);
    }
    this.free(this.bytes - this.#budget.free);
    return entry;
  }

  /** Returns the items of an entry, which counts as used; undefined if they were dropped. */
  use(kept: Kept): Buffer | undefined {
    if (kept instanceof Entry && this.#entries.delete(kept)) this.#entries.add(kept);
    return kept.items;
  }

  free(bytes: number): void {
    const least = this.bytes - bytes;
    for (const entry of this.#entries) {
      if (this.bytes <= least) return;
      this.#remove(entry);
    }
  }

  #leftBy(tenant: string): number {
    return this.#budget.maxBytes - (this.bytes - this.#ofTenant(tenant));
  }

  #ofTenant(tenant: string): number {
    return this.#bytesOf.get(tenant) ?? 0;
  }

  #remove(entry: Entry): void {
    if (!this.#entries.delete(entry)) return;
    entry.items = undefined;
    this.#count(entry, -entry.bytes);
  }

  #count({ tenant }: Entry, bytes: number): void {
    this.bytes += bytes;
    const now = this.#ofTenant(tenant) + bytes;
    if (now > 0) this.#bytesOf.set(tenant, now);
    else this.#bytesOf.delete(tenant);
  }
}
