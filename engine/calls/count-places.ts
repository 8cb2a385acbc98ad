import { EngineError } from "../errors.ts";

/** The most counts that are under way on a node at once, of one tenant and of all together. */
const MAX_OF_TENANT = 16;
const MAX_COUNTS = 256;

/**
 * The places for token counts on a node. Counting takes no slot, and so nothing else would bound how many counts a
 * tenant has under way: beyond its places it is told that the node is full, and other tenants are not.
 */
export class CountPlaces {
  readonly #taken = new Map<string, number>();
  #count = 0;

  /**
   * Takes a place for the tenant, and returns what gives it back. Throws `EngineError` QUEUE_FULL where none is left.
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
