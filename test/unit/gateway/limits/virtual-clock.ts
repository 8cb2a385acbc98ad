import type { Clock } from "../../../../deploy/runtime/time/clock.ts";

/** Time that stands still until the test moves it. */
export class VirtualClock implements Clock {
  #ms = 0;
  readonly #startWallMs: number;

  constructor(startedAt = "2026-03-01T12:00:00.000Z") {
    this.#startWallMs = Date.parse(startedAt);
  }

  nowMs(): number {
    return this.#ms;
  }

  wallMs(): number {
    return this.#startWallMs + this.#ms;
  }

  after(): () => void {
    throw new Error("limits wait for nothing");
  }

  advance(ms: number): void {
    this.#ms += ms;
  }
}
