import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { countFirstToken } from "../../stats/first-token-times.ts";
import type { EndpointTotals, LiveTotals, ModelTotals } from "../../stats/live-totals.ts";
import type { RequestRecord } from "../record/request-record.ts";

/** Follows the events of one answer for the record of its request, the limits of its key and the live totals. */
export class AnswerProgress {
  readonly #record: RequestRecord;
  readonly #grant: RequestRecord["grant"];
  readonly #live: LiveTotals;
  readonly #ofModel: ModelTotals;
  #ofEndpoint: EndpointTotals | undefined;

  constructor(record: RequestRecord, model: string, live: LiveTotals) {
    this.#record = record;
    this.#grant = record.grant;
    this.#live = live;
    this.#ofModel = live.model(model);
  }

  /** Counts deltas, none of which is the first of the answer. It runs for nearly every delta. */
  deltas(count: number): void {
    for (let at = 0; at < count; at += 1) this.#grant?.delta();
    this.#ofModel.deltas += count;
    if (this.#ofEndpoint) this.#ofEndpoint.deltas += count;
  }

  /** Counts the events of one message. */
  see(events: readonly Event[]): void {
    for (const { kind } of events) {
      if (kind?.$case === "blockDelta") {
        if (this.#record.delta()) this.#firstDelta();
        this.#grant?.delta();
        this.#ofModel.deltas += 1;
        if (this.#ofEndpoint) this.#ofEndpoint.deltas += 1;
      } else if (kind?.$case === "started") {
        this.#grant?.started(kind.value);
        this.#record.started();
        this.wentOn();
      } else if (kind?.$case === "finished") {
        this.#record.finished(kind.value);
      }
    }
  }

  /** Switches to the endpoint of the last call: a retry uses another one. */
  wentOn(): void {
    const { endpoint } = this.#record;
    this.#ofEndpoint = endpoint === undefined ? undefined : this.#live.endpoint(endpoint);
  }

  #firstDelta(): void {
    const { firstDeltaMs } = this.#record;
    if (firstDeltaMs !== undefined) countFirstToken(this.#ofModel.firstTokenCounts, firstDeltaMs);
  }
}
