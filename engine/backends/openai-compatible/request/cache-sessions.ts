import { LRUCache } from "lru-cache";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";

/** The most open sessions; beyond them, the least recently used are closed early. */
const MAX_SESSIONS = 10_000;

/**
 * Tracks the sessions under which an engine protects cached prefixes until they are closed. Each is closed once it was
 * idle for the retention time of its last request.
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

  /** `close` ends a session on the engine, which may not have it. */
  constructor(clock: Clock, close: (id: string) => void) {
    this.#clock = clock;
    this.#close = close;
  }

  /** Records the end of a session's request, with any outcome; its prefix is retained for `keepMs` more. */
  used(id: string, keepMs: number): void {
    this.#open.set(
      id,
      this.#clock.after(keepMs, () => this.#end(id)),
    );
  }

  /** Drops all sessions without closing them on the engine. */
  clear(): void {
    this.#open.clear();
  }

  #end(id: string): void {
    this.#open.delete(id);
    this.#close(id);
  }
}
