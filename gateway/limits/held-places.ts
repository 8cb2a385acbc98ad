import type { Place } from "./limit-store.ts";

/** The places that this gateway's requests hold, by key and by name of the limit, for operators. */
export class HeldPlaces {
  readonly #counts = new Map<string, Map<string, number>>();

  /** Wraps `place` so that it counts as held until it is released. */
  hold(keyId: string, name: string, place: Place): Place {
    this.#add(keyId, name, 1);
    let held = true;
    return {
      release: () => {
        if (held) this.#add(keyId, name, -1);
        held = false;
        place.release();
      },
    };
  }

  /** Returns the number of held places of a key's limit. */
  of(keyId: string, name: string): number {
    return this.#counts.get(keyId)?.get(name) ?? 0;
  }

  #add(keyId: string, name: string, by: number): void {
    const counts = this.#counts.get(keyId) ?? new Map<string, number>();
    counts.set(name, (counts.get(name) ?? 0) + by);
    if (counts.get(name) === 0) counts.delete(name);
    if (counts.size === 0) this.#counts.delete(keyId);
    else this.#counts.set(keyId, counts);
  }
}
