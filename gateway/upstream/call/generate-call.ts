import { type ClientReadableStream, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { onAbort } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import {
  type Event,
  type GenerateRequest,
  type GenerateResponse,
  InferenceServiceService,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import { EventOrder } from "./event-order.ts";
import { fromGrpc, ourFault, protocolViolation, stalled, type UpstreamFailure } from "./grpc-error.ts";
import type { Timeouts } from "./timeouts.ts";
import { TryWatch } from "./try-watch.ts";

/** A node that ends a call with it wants no more of them: as Envoy's `x-envoy-immediate-health-check-fail`. */
const IMMEDIATE_FAIL_TRAILER = "x-svc-immediate-health-check-fail";

/** Holds the engine back while the client's reader is slow. */
export type Flow = {
  pause(): void;
  resume(): void;
};

/** What goes along with a call as metadata, by name in lower case: the context of its trace. */
export type CallHeaders = Readonly<Record<string, string>>;

export function metadataOf(headers: CallHeaders): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return metadata;
}

/** What a call needs beside the request. */
export type CallOptions = {
  /** Go along as metadata. */
  readonly headers: CallHeaders;
  /** Wall clock, milliseconds: when the whole answer must be there. */
  readonly deadline: number;
  readonly clock: Clock;
  readonly timeouts: Timeouts;
  /** Tokens of the prompt, roughly. */
  readonly inputTokens: number;
};

/**
 * One Generate call on one endpoint, from opening it to its end. Resolves to undefined when the answer was complete, else
 * to what went wrong; never rejects. Aborting the signal cancels the call: grpc-js tells the node within a millisecond.
 *
 * `onEvents` gets the events of one message, checked to be in order. It runs on the path of every delta, straight from
 * the library's `data` event: an async iterator in between costs as much again.
 */
export function callGenerate(
  endpoint: Endpoint,
  request: GenerateRequest,
  { headers, deadline, clock, timeouts, inputTokens }: CallOptions,
  signal: AbortSignal,
  onEvents: (events: readonly Event[], flow: Flow) => void,
): Promise<UpstreamFailure | undefined> {
  const { path, requestSerialize, responseDeserialize } = InferenceServiceService.generate;
  const call: ClientReadableStream<GenerateResponse> = endpoint.client.makeServerStreamRequest(
    path,
    requestSerialize,
    responseDeserialize,
    request,
    metadataOf(headers),
    { deadline },
  );
  const order = new EventOrder();
  let failure: UpstreamFailure | undefined;

  return new Promise((resolve) => {
    let ended = false;
    const end = () => {
      watch.close();
      letGo();
      resolve(failure);
    };
    const cancel = () => {
      call.cancel();
      // The call may be over while its last messages wait behind a paused stream: then nothing more will come.
      if (ended) end();
    };
    const breakOff = (found: UpstreamFailure) => {
      failure ??= found;
      cancel();
    };
    const connected = () => endpoint.connected;
    const watch = new TryWatch(clock, timeouts, inputTokens, connected, (limit) => breakOff(stalled(limit)));
    const flow: Flow = {
      pause() {
        watch.hold();
        call.pause();
      },
      resume() {
        watch.goOn();
        call.resume();
      },
    };
    const letGo = onAbort(signal, cancel);

    call.on("data", ({ events }: GenerateResponse) => {
      // After cancelling, what was already on its way is of no interest.
      if (failure || signal.aborted) return;
      watch.seen(events);
      if (!events.every((event) => order.allows(event))) return breakOff(protocolViolation());
      try {
        onEvents(events, flow);
      } catch (error) {
        breakOff(ourFault(error));
      }
    });
    call.on("error", (error: ServiceError) => {
      // Also emitted for a cancelled call; what led to the cancelling is the better reason.
      const { workedMs } = watch;
      failure ??= { ...fromGrpc(error, workedMs !== undefined), workedMs };
    });
    call.on("status", ({ code, metadata }) => {
      ended = true;
      if (metadata.get(IMMEDIATE_FAIL_TRAILER).length > 0) endpoint.failHealthNow();
      if (code !== status.OK) end();
    });
    call.on("end", () => {
      // Emitted for failed calls too, before or after their status; only a complete answer waits for it.
      if (!order.finished) failure ??= protocolViolation();
      if (ended) end();
    });
  });
}
