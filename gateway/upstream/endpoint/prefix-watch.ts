import { type ClientReadableStream, type StatusObject, status } from "@grpc/grpc-js";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import {
  Capability,
  NodeServiceService,
  type WatchPrefixesResponse,
} from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { Endpoint } from "./endpoint.ts";

const MIN_REWATCH_MS = 100;
const MAX_REWATCH_MS = 10_000;
/** The lifetime from which a watch is reopened without a longer backoff, in milliseconds. */
const STEADY_MS = 5_000;
/** When a node without the capability is asked again, in milliseconds: it may have been replaced. */
const ASK_AGAIN_MS = 60_000;

export type PrefixWatchOptions = {
  readonly endpoint: Endpoint;
  readonly model: string;
  readonly announcements: {
    take(address: string, message: WatchPrefixesResponse): void;
    forget(address: string): void;
  };
  readonly clock: Clock;
  readonly random: () => number;
};

/** Follows an endpoint's cached prefixes; they go with the stream that reported them. */
export class PrefixWatch {
  readonly #options: PrefixWatchOptions;
  #call: ClientReadableStream<WatchPrefixesResponse> | undefined;
  #rewatchMs = MIN_REWATCH_MS;
  #cancelTimer: () => void = () => {};
  #follows = false;

  constructor(options: PrefixWatchOptions) {
    this.#options = options;
  }

  /** Starts or resumes; an endpoint that has not described the capability gets no watch. */
  follow(): void {
    if (this.#follows) return;
    const { endpoint, model } = this.#options;
    if (!endpoint.description(model)?.capabilities.includes(Capability.PREFIX_EVENTS)) return;
    this.#follows = true;
    this.#open();
  }

  stop(): void {
    this.#follows = false;
    this.#cancelTimer();
    this.#end();
  }

  #open(): void {
    const { endpoint, model, announcements, clock } = this.#options;
    const { path, requestSerialize, responseDeserialize } = NodeServiceService.watchPrefixes;
    const call = endpoint.client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, { model });
    this.#call = call;
    const openedMs = clock.nowMs();
    call.on("data", (message: WatchPrefixesResponse) => {
      if (this.#call === call) announcements.take(endpoint.address, message);
    });
    // Repeated by the status, which also reports a stream that the node ended normally.
    call.on("error", () => {});
    call.on("status", ({ code }: StatusObject) => {
      if (this.#call !== call) return;
      if (clock.nowMs() - openedMs >= STEADY_MS) this.#rewatchMs = MIN_REWATCH_MS;
      this.#end();
      this.#reopen(code === status.UNIMPLEMENTED);
    });
  }

  #reopen(isUnimplemented: boolean): void {
    const { clock, random } = this.#options;
    const waitMs = (isUnimplemented ? ASK_AGAIN_MS : this.#rewatchMs) * (0.8 + 0.4 * random());
    this.#rewatchMs = Math.min(MAX_REWATCH_MS, 2 * this.#rewatchMs);
    this.#cancelTimer = clock.after(waitMs, () => this.#open());
  }

  #end(): void {
    const { endpoint, announcements } = this.#options;
    const call = this.#call;
    this.#call = undefined;
    call?.cancel();
    announcements.forget(endpoint.address);
  }
}
