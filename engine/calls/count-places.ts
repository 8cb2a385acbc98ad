import { EngineError } from "../errors.ts";

/** The most concurrent token counts, per tenant and per node. */
const MAX_OF_TENANT = 16;
const MAX_COUNTS = 256;

/**
 * Limits concurrent token counts of a node. Counting takes no slot, so that nothing else bounds it. A tenant beyond its
 * limit gets QUEUE_FULL; other tenants are not affected.
 */
export class CountPlaces {
  readonly #taken = new Map<string, number>();
  #count = 0;

  /**
   * Takes a permit for the tenant and returns the function that releases it. Throws `EngineError` QUEUE_FULL if none is
   * free.
   */
  take(tenant: string): () => void {
    const taken = this.#taken.get(tenant) ?? 0;
    if (taken >= MAX_OF_TENANT || this.#count >= MAX_COUNTS)
      throw new EngineError("QUEUE_FULL", "Too many token counts are under way.");
    this.#taken.set(tenant, taken + 1);
    this.#count += 1;
    return () => {
      this.#count -= 1;
      const left = (this.#taken.get(tenant) ?? 1) - 1;
      if (left === 0) this.#taken.delete(tenant);
      else this.#taken.set(tenant, left);
    };
  }
}
