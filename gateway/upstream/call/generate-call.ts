import { type ClientReadableStream, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { onAbort } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import {
  type Event,
  GenerateResponse,
  InferenceServiceService,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import { DeltaReader, type Deltas } from "./delta-reader.ts";
import { EventOrder } from "./event-order.ts";
import { fromGrpc, ourFault, protocolViolation, stalled, type UpstreamFailure } from "./grpc-error.ts";
import { HandOver } from "./hand-over.ts";
import { asBuffer, type HeldRequest } from "./held-request.ts";
import type { Timeouts } from "./timeouts.ts";
import { TryWatch } from "./try-watch.ts";

/**
 * The trailer by which a node that ends a call says that it wants no more of them, as Envoy's
 * `x-envoy-immediate-health-check-fail`.
 */
const IMMEDIATE_FAIL_TRAILER = "x-svc-immediate-health-check-fail";

/** Holds the engine back while the client's reader is slow. */
export type Flow = {
  /** Stops reading from the engine; its silence counts against no time limit then. */
  pause(): void;
  /** Reads on after `pause`. */
  resume(): void;
};

/** The metadata that goes along with a call, by name in lower case: the context of its trace. */
export type CallHeaders = Readonly<Record<string, string>>;

/** Makes gRPC metadata out of the headers of a call. */
export function metadataOf(headers: CallHeaders): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return metadata;
}

/** What one Generate call is made of. */
export type GenerateCallOptions = {
  /** The endpoint that is called. */
  readonly endpoint: Endpoint;
  /** The request that the call is made for. */
  readonly request: HeldRequest;
  /** Returns the message for the engine, of what is held of the request; it is asked once, when the call is opened. */
  readonly message: (held: Uint8Array) => Uint8Array;
  /** The headers that go along with the call as metadata. */
  readonly headers: CallHeaders;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly deadline: number;
  /** The clock by which the call is watched. */
  readonly clock: Clock;
  /** The time limits that the call is watched by. */
  readonly timeouts: Timeouts;
  /** The rough length of the prompt in tokens, with which the limit on the first delta grows. */
  readonly inputTokens: number;
  /**
   * Takes the events of one message, checked to be in order, and the tokens behind them. Returns what is wrong with them,
   * upon which the call is broken off; undefined where nothing is.
   */
  readonly onEvents: (events: readonly Event[], tokens: readonly number[], flow: Flow) => UpstreamFailure | undefined;
  /**
   * Takes deltas of the open block, behind the first one of the call. It runs on the path of nearly every delta, straight
   * from the bytes that came: an async iterator in between costs as much again. Returns false where it has not taken
   * them: then they come as events.
   */
  readonly onDeltas: (deltas: Deltas, flow: Flow) => boolean;
};

/**
 * Makes one Generate call on one endpoint, from opening it to its end. Resolves to undefined when the answer was
 * complete, else to what went wrong. Never rejects. Aborting the signal
 * cancels the call: grpc-js tells the node within a millisecond.
 */
export function callGenerate(options: GenerateCallOptions, signal: AbortSignal): Promise<UpstreamFailure | undefined> {
  return new Promise((resolve) => {
    new GenerateCall(options, signal, resolve).open();
  });
}

/** A Generate call that runs: what the library says about it, judged by the order of events and the time limits. */
class GenerateCall {
  readonly #endpoint: Endpoint;
  readonly #call: ClientReadableStream<Buffer>;
  readonly #signal: AbortSignal;
  readonly #onEvents: GenerateCallOptions["onEvents"];
  readonly #onDeltas: GenerateCallOptions["onDeltas"];
  readonly #resolve: (failure: UpstreamFailure | undefined) => void;
  readonly #order = new EventOrder();
  readonly #reader = new DeltaReader();
  readonly #watch: TryWatch;
  readonly #handOver: HandOver;
  readonly #flow: Flow;
  #failure: UpstreamFailure | undefined;
  /** Whether the call has failed or was cancelled: what was already on its way is of no interest. */
  #broken = false;
  /**
   * Whether the call's status has come: then the library has nothing more to say but what waits behind a paused stream.
   */
  #hasStatus = false;
  #letGo = () => {};

  constructor(
    {
      endpoint,
      request,
      message,
      headers,
      deadline,
      clock,
      timeouts,
      inputTokens,
      onEvents,
      onDeltas,
    }: GenerateCallOptions,
    signal: AbortSignal,
    resolve: (failure: UpstreamFailure | undefined) => void,
  ) {
    const { path } = InferenceServiceService.generate;
    const metadata = metadataOf(headers);
    this.#endpoint = endpoint;
    this.#handOver = new HandOver({
      lane: endpoint.handOvers,
      tenant: request.tenant,
      bytes: request.size,
      onBegun: () => this.#watch.handOverBegun(),
      onHandedOver: () => this.#watch.handedOver(),
    });
    this.#call = endpoint.client.makeServerStreamRequest(
      path,
      asBuffer,
      // The hot ones are never decoded.
      (bytes) => bytes,
      message(request.bytes),
      metadata,
      {
        deadline,
        interceptors: [this.#handOver.interceptor],
      },
    );
    this.#signal = signal;
    this.#onEvents = onEvents;
    this.#onDeltas = onDeltas;
    this.#resolve = resolve;
    const connected = () => endpoint.connected;
    const size = { bytes: request.size, inputTokens };
    this.#watch = new TryWatch(clock, timeouts, size, connected, (limit) =>
      this.#breakOff({ ...stalled(limit), workedMs: this.#watch.aliveMs }),
    );
    this.#flow = {
      pause: () => {
        this.#watch.hold();
        this.#call.pause();
      },
      resume: () => {
        this.#watch.goOn();
        this.#call.resume();
      },
    };
  }

  /** Follows the call, and the signal that cancels it. */
  open(): void {
    this.#letGo = onAbort(this.#signal, () => this.#cancel());
    this.#call.on("data", (message: Buffer) => this.#data(message));
    this.#call.on("error", (error: ServiceError) => {
      // Also emitted for a cancelled call; what led to the cancelling is the better reason.
      this.#broken = true;
      const { workedMs } = this.#watch;
      this.#failure ??= { ...fromGrpc(error, workedMs !== undefined), workedMs };
    });
    this.#call.on("status", ({ code, metadata }) => {
      this.#hasStatus = true;
      if (metadata.get(IMMEDIATE_FAIL_TRAILER).length > 0) this.#endpoint.failHealthNow();
      if (code !== status.OK) this.#end();
    });
    this.#call.on("end", () => {
      // Emitted for failed calls too, before or after their status; only a complete answer waits for it.
      if (!this.#order.finished) this.#failure ??= protocolViolation();
      if (this.#hasStatus) this.#end();
    });
  }

  /** Takes one message. It runs on the path of every delta. */
  #data(message: Buffer): void {
    if (this.#broken) return;
    try {
      const block = this.#order.deltaBlock;
      if (block >= 0 && this.#reader.read(message, block) && this.#onDeltas(this.#reader, this.#flow))
        this.#watch.deltas();
      else this.#take(message);
    } catch (error) {
      this.#breakOff(ourFault(error));
    }
  }

  /** Takes a message that is not one of deltas alone, or is the first of them. */
  #take(message: Buffer): void {
    const decoded = decode(message);
    if (!decoded) {
      this.#breakOff(protocolViolation());
      return;
    }
    const { events, tokens } = decoded;
    this.#watch.seen(events, tokens.length);
    for (const event of events) {
      if (this.#order.allows(event)) continue;
      this.#breakOff(protocolViolation());
      return;
    }
    const wrong = this.#onEvents(events, tokens, this.#flow);
    if (wrong) this.#breakOff(wrong);
  }

  #breakOff(found: UpstreamFailure): void {
    this.#failure ??= found;
    this.#cancel();
  }

  #cancel(): void {
    this.#broken = true;
    this.#call.cancel();
    // The call may be over while its last messages wait behind a paused stream: then nothing more will come.
    if (this.#hasStatus) this.#end();
  }

  #end(): void {
    this.#handOver.end();
    this.#watch.close();
    this.#letGo();
    this.#resolve(this.#failure);
  }
}

/** Returns the message in its bytes; undefined where they are none. */
function decode(bytes: Buffer): GenerateResponse | undefined {
  try {
    return GenerateResponse.decode(bytes);
  } catch {
    return undefined;
  }
}
