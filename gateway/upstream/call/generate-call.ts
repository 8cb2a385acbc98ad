import { onAbort } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ResumableAnswer } from "../continuation/resumable-answer.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import type { NoteSink, PickObserver } from "../load-balancing/policy.ts";
import type { CallTerms, PromptBase, Resumption } from "../request/encoded-request.ts";
import type { RequestBuffer } from "../request/request-buffer.ts";
import type { CallHeaders, WireCall, WireEnd, WireListener } from "../wire/generate-wire.ts";
import { HandOver, isBigMessage } from "../wire/hand-over.ts";
import { AttemptTimeouts } from "./attempt-timeouts.ts";
import { DeltaReader } from "./delta-reader.ts";
import { EventOrder } from "./event-order.ts";
import {
  fromGrpc,
  notHandedOver,
  otherAnswer,
  ourFault,
  protocolViolation,
  stalled,
  type UpstreamFailure,
} from "./grpc-error.ts";
import type { Flow, RetryBoundary } from "./retry-boundary.ts";
import type { Timeouts } from "./timeouts.ts";

/** A node's announcement to refuse further calls, as Envoy's `x-envoy-immediate-health-check-fail`. */
const IMMEDIATE_FAIL_TRAILER = "x-svc-immediate-health-check-fail";

export type GenerateCallOptions = {
  readonly endpoint: Endpoint;
  readonly request: RequestBuffer;
  readonly resumption: Resumption;
  /** What of the prompt is left out, as the endpoint has it. */
  readonly base?: PromptBase | undefined;
  readonly promptHandOver?: CallTerms["promptHandOver"];
  readonly headers: CallHeaders;
  /** The deadline of the whole answer, in milliseconds of the wall clock. */
  readonly deadline: number;
  readonly clock: Clock;
  readonly timeouts: Timeouts;
  /** The approximate length of the prompt in tokens, with which the limit on the first delta grows. */
  readonly inputTokens: number;
  /** Learns from the first events for the load-balancing policy. */
  readonly observer: Pick<PickObserver, "see"> | undefined;
  /** Receives the note on cached tokens. Default: none is made. */
  readonly notes?: NoteSink | undefined;
  /** Keeps the answer, and passes on what its caller does not have yet. */
  readonly answer: Pick<ResumableAnswer, "take" | "takeDeltas">;
  readonly boundary: Pick<RetryBoundary, "takesDeltas" | "pass" | "passDeltas">;
};

/**
 * Makes one Generate call on one endpoint, from opening it to its end. Resolves to undefined when the answer was
 * complete, else to the failure. Never rejects. Aborting the signal cancels the call, which the node receives at once.
 */
export function callGenerate(options: GenerateCallOptions, signal: AbortSignal): Promise<UpstreamFailure | undefined> {
  return new Promise((resolve) => {
    new GenerateCall(options, signal, resolve);
  });
}

/** A running Generate call: checks the received messages by the order of events and the time limits. */
class GenerateCall implements WireListener {
  readonly #options: GenerateCallOptions;
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
  #stopListening = () => {};

  constructor(
    options: GenerateCallOptions,
    signal: AbortSignal,
    resolve: (failure: UpstreamFailure | undefined) => void,
  ) {
    const { endpoint, request, resumption, base, headers, deadline, clock, timeouts, inputTokens } = options;
    const { promptHandOver } = options;
    this.#options = options;
    this.#resolve = resolve;
    const connected = () => this.#call?.connected ?? false;
    const message = request.messageFor({ resumption, base, promptHandOver });
    const { byteLength: bytes } = message;
    const size = { bytes, inputTokens };
    const isBig = isBigMessage(bytes);
    this.#watch = new AttemptTimeouts(clock, timeouts, size, connected, (limit) => {
      const failure = limit === "hand_over" ? notHandedOver(isBig) : stalled(limit);
      // A connection that takes a big message slowly is not silent: a ping would wait behind the message.
      const why = limit === "hand_over" && isBig ? undefined : "silent";
      this.#breakOff({ ...failure, workedMs: this.#watch.aliveMs, waited: this.#watch.waits }, why);
    });
    const { tenant } = request;
    const handOver = new HandOver({ lane: endpoint.handOvers, tenant, bytes, watch: this.#watch });
    this.#handOver = handOver;
    this.#flow = {
      pause: () => {
        this.#watch.hold();
        this.#call?.pause();
      },
      resume: () => {
        this.#watch.resume();
        this.#call?.resume();
      },
    };
    this.#call = endpoint.wire.open({ message, headers, deadline, handOver }, this);
    this.#stopListening = onAbort(signal, () => this.#cancel());
  }

  ended({ error, trailers }: WireEnd): void {
    // The cause of a cancellation is the better reason.
    if (error) {
      const { workedMs, waits: waited } = this.#watch;
      this.#failure ??= { ...fromGrpc(error, workedMs !== undefined), workedMs, waited };
    } else if (!this.#order.finished) this.#failure ??= protocolViolation();
    if (trailers.get(IMMEDIATE_FAIL_TRAILER).length > 0) this.#options.endpoint.failHealthNow();
    this.#broken = true;
    this.#handOver.end();
    this.#watch.close();
    this.#stopListening();
    this.#resolve(this.#failure);
  }

  /**
   * Takes a message. Nearly every one consists of deltas of the open block: those are passed on from the received bytes,
   * as an async iterator in between costs as much again. The observer has learned from the first one.
   */
  message(bytes: Buffer, from: number, to: number): void {
    if (this.#broken) return;
    const { answer, boundary } = this.#options;
    const block = this.#order.deltaBlock;
    const reader = this.#reader;
    try {
      if (
        block >= 0 &&
        boundary.takesDeltas &&
        reader.read(bytes, from, to, block) &&
        answer.takeDeltas(reader.texts, reader.tokens)
      ) {
        boundary.passDeltas(reader, this.#flow);
        this.#watch.deltas();
      } else this.#take(bytes.subarray(from, to));
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
    const { observer, notes, answer, boundary } = this.#options;
    observer?.see(events, notes);
    const passed = answer.take(events, tokens);
    if (!passed) this.#breakOff(otherAnswer());
    else if (passed.length > 0) boundary.pass(passed, this.#flow);
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
