import { onAbort } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { type Event, GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import type { CallHeaders, WireCall, WireEnd, WireListener } from "../wire/generate-wire.ts";
import { HandOver, isBigMessage } from "../wire/hand-over.ts";
import { AttemptTimeouts } from "./attempt-timeouts.ts";
import { DeltaReader, type Deltas } from "./delta-reader.ts";
import { EventOrder } from "./event-order.ts";
import { fromGrpc, notHandedOver, ourFault, protocolViolation, stalled, type UpstreamFailure } from "./grpc-error.ts";
import type { RequestBuffer } from "./request-buffer.ts";
import type { Timeouts } from "./timeouts.ts";

/**
 * The trailer by which a node that ends a call announces to refuse further ones, as Envoy's
 * `x-envoy-immediate-health-check-fail`.
 */
const IMMEDIATE_FAIL_TRAILER = "x-svc-immediate-health-check-fail";

/** Flow control of the engine's stream while the client reads slowly. */
export type Flow = {
  /** Stops reading from the engine, and suspends its time limits. */
  pause(): void;
  resume(): void;
};

export type GenerateCallOptions = {
  readonly endpoint: Endpoint;
  readonly request: RequestBuffer;
  /** Returns the message for the engine, from the bytes of the request; called once, when the call is opened. */
  readonly message: (held: Uint8Array) => Uint8Array;
  readonly headers: CallHeaders;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly deadline: number;
  readonly clock: Clock;
  readonly timeouts: Timeouts;
  /** The approximate length of the prompt in tokens, with which the limit on the first delta grows. */
  readonly inputTokens: number;
  /**
   * Takes the events of one message, checked to be in order, and the tokens behind them. Returns a failure, which
   * cancels the call; undefined where there is none.
   */
  readonly onEvents: (events: readonly Event[], tokens: readonly number[], flow: Flow) => UpstreamFailure | undefined;
  /**
   * Takes deltas of the open block, after the first one of the call. Runs for nearly every delta, directly from the
   * received bytes: an async iterator in between costs as much again. Returns false where it has not taken them: then
   * they are passed as events.
   */
  readonly onDeltas: (deltas: Deltas, flow: Flow) => boolean;
};

/**
 * Makes one Generate call on one endpoint, from opening it to its end. Resolves to undefined when the answer was
 * complete, else to the failure. Never rejects. Aborting the signal cancels the call, which the node receives at once.
 */
export function callGenerate(options: GenerateCallOptions, signal: AbortSignal): Promise<UpstreamFailure | undefined> {
  return new Promise((resolve) => {
    new GenerateCall(options, signal, resolve).open();
  });
}

/** A running Generate call: checks the received messages by the order of events and the time limits. */
class GenerateCall implements WireListener {
  readonly #options: GenerateCallOptions;
  readonly #signal: AbortSignal;
  readonly #resolve: (failure: UpstreamFailure | undefined) => void;
  readonly #order = new EventOrder();
  readonly #reader = new DeltaReader();
  readonly #watch: AttemptTimeouts;
  readonly #handOver: HandOver;
  readonly #flow: Flow;
  #call: WireCall | undefined;
  #failure: UpstreamFailure | undefined;
  /** Whether the call has failed or was cancelled: messages still in flight are ignored. */
  #broken = false;
  #letGo = () => {};

  constructor(
    options: GenerateCallOptions,
    signal: AbortSignal,
    resolve: (failure: UpstreamFailure | undefined) => void,
  ) {
    const { endpoint, request, clock, timeouts, inputTokens } = options;
    this.#options = options;
    this.#signal = signal;
    this.#resolve = resolve;
    const connected = () => this.#call?.connected ?? false;
    const size = { bytes: request.size, inputTokens };
    const isBig = isBigMessage(request.size);
    this.#watch = new AttemptTimeouts(clock, timeouts, size, connected, (limit) => {
      const failure = limit === "hand_over" ? notHandedOver(isBig) : stalled(limit);
      // A connection that takes a big message slowly is not silent: a ping would wait behind the message.
      const why = limit === "hand_over" && isBig ? undefined : "silent";
      this.#breakOff({ ...failure, workedMs: this.#watch.aliveMs }, why);
    });
    this.#handOver = new HandOver({
      lane: endpoint.handOvers,
      tenant: request.tenant,
      bytes: request.size,
      onBegun: () => this.#watch.handOverBegun(),
      onHandedOver: () => this.#watch.handedOver(),
    });
    this.#flow = {
      pause: () => {
        this.#watch.hold();
        this.#call?.pause();
      },
      resume: () => {
        this.#watch.goOn();
        this.#call?.resume();
      },
    };
  }

  open(): void {
    const { endpoint, request, message, headers, deadline } = this.#options;
    const handOver = this.#handOver;
    this.#call = endpoint.wire.open({ message: message(request.bytes), headers, deadline, handOver }, this);
    this.#letGo = onAbort(this.#signal, () => this.#cancel());
  }

  ended({ error, trailers }: WireEnd): void {
    // The cause of a cancellation is the better reason.
    if (error) {
      const { workedMs } = this.#watch;
      this.#failure ??= { ...fromGrpc(error, workedMs !== undefined), workedMs };
    } else if (!this.#order.finished) this.#failure ??= protocolViolation();
    if (trailers.get(IMMEDIATE_FAIL_TRAILER).length > 0) this.#options.endpoint.failHealthNow();
    this.#broken = true;
    this.#handOver.end();
    this.#watch.close();
    this.#letGo();
    this.#resolve(this.#failure);
  }

  message(bytes: Buffer, from: number, to: number): void {
    if (this.#broken) return;
    try {
      const block = this.#order.deltaBlock;
      const isHot = block >= 0 && this.#reader.read(bytes, from, to, block);
      if (isHot && this.#options.onDeltas(this.#reader, this.#flow)) this.#watch.deltas();
      else this.#take(bytes.subarray(from, to));
    } catch (error) {
      this.#breakOff(ourFault(error));
    }
  }

  /** Takes a message that is not one of deltas only, or is the first of them. */
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
    const wrong = this.#options.onEvents(events, tokens, this.#flow);
    if (wrong) this.#breakOff(wrong);
  }

  #breakOff(found: UpstreamFailure, why?: "silent"): void {
    this.#failure ??= found;
    this.#cancel(why);
  }

  #cancel(why?: "silent"): void {
    this.#broken = true;
    this.#call?.cancel(why);
  }
}

function decode(bytes: Buffer): GenerateResponse | undefined {
  try {
    return GenerateResponse.decode(bytes);
  } catch {
    return undefined;
  }
}
