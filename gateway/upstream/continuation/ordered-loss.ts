import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { engineLost } from "../../errors.ts";
import type { ResumableAnswer } from "./resumable-answer.ts";

type Taker = Pick<ResumableAnswer, "take" | "takeDeltas">;

/**
 * The loss of an engine that a request orders for itself, so that a prober sees its answer continued. After the first
 * message with a delta the call is cancelled at this gateway, as after a lost connection; the endpoint and its other
 * calls notice nothing.
 */
export class OrderedLoss implements Taker {
  readonly #answer: Taker;
  readonly #lose: () => void;

  /** `lose` cancels the call: no message comes after that. */
  constructor(answer: Taker, lose: () => void) {
    this.#answer = answer;
    this.#lose = lose;
  }

  /** As that of the answer. Throws `ApiError` where the answer ends before the loss: it would look continued. */
  take(events: readonly Event[], tokens: readonly number[]): readonly Event[] | undefined {
    const has = (wanted: string) => events.some(({ kind }) => kind?.$case === wanted);
    if (has("finished")) throw engineLost("upstream_lost_on_order");
    const passed = this.#answer.take(events, tokens);
    if (has("blockDelta")) this.#lose();
    return passed;
  }

  takeDeltas(texts: readonly string[], tokens: readonly number[]): boolean {
    return this.#answer.takeDeltas(texts, tokens);
  }
}
