import type { Event } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { progress } from "../../stream-events.ts";
import type { EngineWatch } from "../watch/engine-watch.ts";

/**
 * Says that a request still waits for its first word: once when the engine has it, then whenever the engine has moved. A
 * stuck engine goes silent.
 */
export class SignsOfLife {
  readonly #watch: EngineWatch;
  readonly #unwatch: () => void;
  #tell: () => void = () => {};

  constructor(watch: EngineWatch) {
    this.#watch = watch;
    this.#unwatch = watch.onMove(() => this.#tell());
  }

  /** Notes that the engine has the request. */
  accepted(): void {
    this.#tell();
  }

  /** Waits for `work`, with a sign now and then. Throws what the work throws. */
  async *during<T>(work: Promise<T>): AsyncGenerator<readonly Event[], T, void> {
    const settled = work.then(
      () => "settled" as const,
      () => "settled" as const,
    );
    for (;;) {
      const sign = new Promise<"sign">((resolve) => {
        this.#tell = () => resolve("sign");
      });
      if ((await Promise.race([settled, sign])) === "settled") return await work;
      yield [progress(Math.max(0, this.#watch.load?.waiting ?? 0), 0, this.#watch.moves)];
    }
  }

  /** Stops watching the engine. */
  close(): void {
    this.#unwatch();
  }
}
