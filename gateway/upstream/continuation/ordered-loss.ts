import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ResumableAnswer } from "./resumable-answer.ts";

/** The messages with deltas that the engine sends before it is lost: the client has a part of its answer then. */
const LOST_AFTER = 2;

/**
 * The loss of an engine that a request orders for itself, so that a prober sees its answer continued. The call is
 * cancelled at this gateway, as after a lost connection; the endpoint and its other calls notice nothing.
 */
export class OrderedLoss {
  readonly #answer: Pick<ResumableAnswer, "take" | "takeDeltas">;
  readonly #lose: () => void;
  #messages = 0;

  /** `lose` cancels the call; it is called once, after the second message with deltas. */
  constructor(answer: Pick<ResumableAnswer, "take" | "takeDeltas">, lose: () => void) {
    this.#answer = answer;
    this.#lose = lose;
  }

  take(events: readonly Event[], tokens: readonly number[]): readonly Event[] | undefined {
    if (events.some(({ kind }) => kind?.$case === "blockDelta")) this.#count();
    return this.#answer.take(events, tokens);
  }

  takeDeltas(texts: readonly string[], tokens: readonly number[]): boolean {
    const taken = this.#answer.takeDeltas(texts, tokens);
    // Else the message comes again, through `take`.
    if (taken) this.#count();
    return taken;
  }

  #count(): void {
    this.#messages += 1;
    if (this.#messages === LOST_AFTER) this.#lose();
  }
}
