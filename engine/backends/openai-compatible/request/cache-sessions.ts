import { LRUCache } from "lru-cache";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";

/** The most sessions that are remembered; of more, those that were used longest ago are closed early. */
const MAX_SESSIONS = 10_000;

/**
 * Keeps sessions under which an engine protects cached prefixes until it is told that they are over: each is closed
 * when nobody has used it for as long as its last request wanted its prefix kept.
 */
export class CacheSessions {
  readonly #clock: Clock;
  readonly #close: (id: string) => void;
  /** The functions that cancel the closing of the open sessions. */
  readonly #open = new LRUCache<string, () => void>({
    max: MAX_SESSIONS,
    dispose: (cancel, id, reason) => {
      cancel();
      if (reason === "evict") this.#close(id);
    },
  });

  /** Makes an empty list of sessions. `close` tells the engine to end one, which may be one that it does not know. */
  constructor(clock: Clock, close: (id: string) => void) {
    this.#clock = clock;
    this.#close = close;
  }

  /** Notes that a request of this session has ended, however it did; its prefix is to be kept for `keepMs` more. */
  used(id: string, keepMs: number): void {
    this.#open.set(
      id,
      this.#clock.after(keepMs, () => this.#end(id)),
    );
  }

  /** Forgets all sessions; the engine is told nothing. */
  clear(): void {
    this.#open.clear();
  }

  #end(id: string): void {
    this.#open.delete(id);
    this.#close(id);
  }
}
