/** The time for which a tenant that has asked is reckoned with, in milliseconds. */
const RECENT_MS = 60_000;

type Asked = { readonly tenant: string; readonly atMs: number };

/**
 * Counts the places that each tenant holds, and keeps some of all places from whoever has most of them, as long as others
 * come: a queue is fair to those who wait, but a tenant that has all places makes everybody else wait for them.
 */
export class TenantPlaces {
  readonly #reserve: number;
  readonly #held = new Map<string, number>();
  /** The tenant that asked last, and the last other one. */
  #newest: Asked | undefined;
  #other: Asked | undefined;

  /** Counts nothing yet. `reservePercent` of all places, from 0 to 100, are kept from each tenant. */
  constructor(reservePercent: number) {
    this.#reserve = reservePercent / 100;
  }

  /** Notes that a tenant asks, at `atMs` in milliseconds of the monotonic clock. */
  asked(tenant: string, atMs: number): void {
    if (this.#newest && this.#newest.tenant !== tenant) this.#other = this.#newest;
    this.#newest = { tenant, atMs };
  }

  /** Returns whether the tenant may take one more of `places` places, at `nowMs` in milliseconds of the monotonic clock. */
  mayTake(tenant: string, places: number, nowMs: number): boolean {
    const other = this.#newest?.tenant === tenant ? this.#other : this.#newest;
    if (!other || nowMs - other.atMs > RECENT_MS) return true;
    return (this.#held.get(tenant) ?? 0) < places - Math.floor(places * this.#reserve);
  }

  /** Notes that the tenant has taken a place. The returned function notes that it has given it back; it is called once. */
  take(tenant: string): () => void {
    this.#held.set(tenant, (this.#held.get(tenant) ?? 0) + 1);
    return () => {
      const left = (this.#held.get(tenant) ?? 0) - 1;
      if (left > 0) this.#held.set(tenant, left);
      else this.#held.delete(tenant);
    };
  }
}
