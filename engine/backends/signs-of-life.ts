import type { Event, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { stepOf } from "./stream-events.ts";

/**
 * Emits heartbeats for a request that waits for its first event. Only a report that the awaited work has moved causes a
 * heartbeat, never a timer, so that a stuck engine goes silent.
 */
export class SignsOfLife {
  readonly #sign: () => Event;
  #moved = false;
  #wake: () => void = () => {};

  constructor(sign: () => Event) {
    this.#sign = sign;
  }

  moved(): void {
    this.#moved = true;
    this.#wake();
  }

  /** Waits for `work`, and yields heartbeats meanwhile. Throws the error of `work`. */
  async *during<T>(work: Promise<T>): AsyncGenerator<GenerateResponse, T, void> {
    const settled = work.then(
      () => "settled" as const,
      () => "settled" as const,
    );
    for (;;) {
      const moved = new Promise<"moved">((resolve) => {
        this.#wake = () => resolve("moved");
        if (this.#moved) resolve("moved");
      });
      if ((await Promise.race([settled, moved])) === "settled") return await work;
      this.#moved = false;
      yield stepOf([this.#sign()]);
    }
  }
}
