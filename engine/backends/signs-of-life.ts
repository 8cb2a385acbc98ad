import type { Event, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { stepOf } from "./stream-events.ts";

/**
 * Says that a request still waits for its first word, whenever it is told that what the request waits for has moved.
 * Who tells it nothing goes silent: a timer must not.
 */
export class SignsOfLife {
  readonly #sign: () => Event;
  #moved = false;
  #wake: () => void = () => {};

  /** Makes signs of life for one request; `sign` makes the event when one goes out. */
  constructor(sign: () => Event) {
    this.#sign = sign;
  }

  /** Notes that what the request waits for has moved. */
  tell(): void {
    this.#moved = true;
    this.#wake();
  }

  /** Waits for `work`, with a sign now and then. Throws what the work throws. */
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
