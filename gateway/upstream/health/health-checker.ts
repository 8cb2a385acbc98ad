import { type ClientReadableStream, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { HealthCheckResponse_ServingStatus, HealthService } from "../../../proto/gen/grpc/health/v1/health.ts";
import type { NodeAnswer } from "../endpoint/describe-node.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import { healthFailure } from "../endpoint/health-failure.ts";
import type { HealthCheckSettings } from "./health-settings.ts";
import { HealthState } from "./health-state.ts";

type HealthReply = ReturnType<typeof HealthService.watch.responseDeserialize>;

/** The time for which a watch must have held to be begun anew at once when it breaks, in milliseconds. */
const STEADY_WATCH_MS = 1_000;
const MIN_REWATCH_MS = 100;
const JITTER = 0.2;
/**
 * The time by which the end of a check may be late, in milliseconds. Beyond it this process was held up, and what the
 * node has answered may lie unread.
 */
const HELD_UP_MS = 250;

/** What checking the health of one model on one endpoint takes. */
export type HealthCheckerOptions = {
  /** The endpoint that is checked. */
  readonly endpoint: Endpoint;
  /** The catalog id of the model that is checked. */
  readonly model: string;
  /** The settings of the checks: how often, how long, and after how many the health changes. */
  readonly settings: HealthCheckSettings;
  /** The clock by which checks are made. */
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Called when health or compatibility may have changed. */
  readonly onResult: () => void;
};

/**
 * Checks the health of one model on one endpoint by `grpc.health.v1.Health`. `Watch` tells a change as soon as the node
 * knows it; `Check` from time to time finds the node that tells nothing any more. What the node says against itself
 * counts at once; failures to reach it, and good news, count by the thresholds. Before an endpoint is healthy it has
 * described itself, and again after every loss of the connection: behind the address there may then be another node.
 */
export class HealthChecker {
  readonly #options: HealthCheckerOptions;
  readonly #state: HealthState;
  readonly #stopListening: () => void;
  #watch: { readonly call: ClientReadableStream<HealthReply>; readonly sinceMs: number } | undefined;
  #watchSupported = true;
  #rewatchMs = MIN_REWATCH_MS;
  /**
   * Whether the node speaks the contract and has the model; undefined while it has yet to be asked, for the first time
   * or again.
   */
  #compatible: boolean | undefined;
  #mismatch = false;
  #failure: string | undefined;
  /** The status that the node itself named last; undefined while it has named none. */
  #said: HealthCheckResponse_ServingStatus | undefined;
  /** Whether the newest check was answered by the node, whatever it said. */
  #answers = false;
  /** A number that changes whenever answers which are still under way become worthless. */
  #epoch = 0;
  #cancelRewatch: () => void = () => {};
  #cancelCheck: () => void = () => {};
  #closed = false;

  constructor(options: HealthCheckerOptions) {
    this.#options = options;
    this.#state = new HealthState(options.settings);
    this.#stopListening = options.endpoint.onFailHealthNow(() => this.#failNow("it wants no more calls"));
  }

  /** Whether the model on the endpoint is healthy, by the thresholds. */
  get healthy(): boolean {
    return this.#state.healthy;
  }

  /** Whether the node does not have the model, or speaks another contract. */
  get mismatch(): boolean {
    return this.#mismatch;
  }

  /** The reason why the newest check failed, for operators; undefined when it passed. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** Whether the node itself has said that it does not serve, and nothing else since. */
  get refusing(): boolean {
    return this.#said !== undefined && this.#said !== HealthCheckResponse_ServingStatus.SERVING;
  }

  /** Whether the node has answered the newest check, whatever it said. */
  get answers(): boolean {
    return this.#answers;
  }

  /** Begins to watch and to check. */
  start(): void {
    this.#openWatch();
    this.#armCheck();
  }

  /** Ends all checks; the last result stays. */
  close(): void {
    this.#closed = true;
    this.#epoch += 1;
    this.#stopListening();
    this.#cancelRewatch();
    this.#cancelCheck();
    this.#watch?.call.cancel();
  }

  #openWatch(): void {
    const { endpoint, model, clock } = this.#options;
    const { path, requestSerialize, responseDeserialize } = HealthService.watch;
    const request = { service: `svc.model/${model}` };
    const call = endpoint.client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
    this.#watch = { call, sinceMs: clock.nowMs() };
    this.#compatible = undefined;
    call.on("data", (reply: HealthReply) => {
      if (this.#closed) return;
      this.#rewatchMs = MIN_REWATCH_MS;
      this.#heard(reply.status);
    });
    // Said again by the status, which also tells of a stream that the node ended well-mannered.
    call.on("error", () => {});
    call.on("status", (ended: StatusObject) => {
      if (!this.#closed) this.#watchEnded(ended);
    });
  }

  #watchEnded(ended: StatusObject): void {
    const { clock, random, settings } = this.#options;
    const heldMs = clock.nowMs() - (this.#watch?.sinceMs ?? 0);
    this.#watch = undefined;
    if (ended.code === status.UNIMPLEMENTED) {
      this.#watchSupported = false;
      this.#check();
      return;
    }
    this.#epoch += 1;
    this.#fail(ended.code === status.OK ? "it ended the health watch" : healthFailure(ended));
    if (heldMs >= STEADY_WATCH_MS) {
      this.#openWatch();
      return;
    }
    const waitMs = this.#rewatchMs * (1 + JITTER * (2 * random() - 1));
    this.#rewatchMs = Math.min(settings.unhealthyIntervalMs, 2 * this.#rewatchMs);
    this.#cancelRewatch = clock.after(waitMs, () => this.#openWatch());
  }

  #heard(now: HealthCheckResponse_ServingStatus): void {
    this.#said = now;
    this.#answers = true;
    if (now === HealthCheckResponse_ServingStatus.SERVING) {
      this.#passed();
    } else {
      // Not serving by another reason than that it does not have the model at all?
      if (now === HealthCheckResponse_ServingStatus.SERVICE_UNKNOWN) this.#askWhatItServes();
      this.#failNow("it says that it does not serve the model");
    }
  }

  #failNow(why: string): void {
    this.#epoch += 1;
    this.#failure = why;
    this.#result(() => this.#state.failNow());
  }

  #fail(why: string): void {
    this.#answers = false;
    this.#failure = why;
    this.#result(() => this.#state.fail());
  }

  #pass(): void {
    this.#failure = undefined;
    // The checks have a connection of their own: that for calls may have been lost with the node before this one.
    this.#options.endpoint.wire.warm();
    this.#result(() => this.#state.pass());
  }

  /** Counts a check that passed. A node that serves counts as well only once it has said what it serves. */
  #passed(): void {
    if (this.#compatible) {
      this.#pass();
      return;
    }
    const epoch = this.#epoch;
    void this.#describe().then((answer) => {
      if (epoch !== this.#epoch) return;
      if (answer.kind === "unreachable") return this.#fail(answer.why);
      this.#compatible = this.#hasModel(answer);
      this.#mismatch = !this.#compatible;
      this.#pass();
    });
  }

  #askWhatItServes(): void {
    const watch = this.#watch;
    void this.#describe().then((answer) => {
      // A node that does not know yet what it will serve says so with an empty list.
      if (this.#closed || this.#watch !== watch || answer.kind === "unreachable") return;
      if (answer.kind === "described" && answer.models.length === 0) return;
      this.#result(() => {
        this.#mismatch = !this.#hasModel(answer);
      });
    });
  }

  #describe(): Promise<NodeAnswer> {
    const { endpoint, clock, settings } = this.#options;
    return endpoint.describe(clock.wallMs() + settings.timeoutMs);
  }

  #hasModel(answer: NodeAnswer): boolean {
    return answer.kind === "described" && answer.models.some(({ id }) => id === this.#options.model);
  }

  #armCheck(): void {
    const { clock, random, settings } = this.#options;
    const { intervalMs, intervalJitterMs, unhealthyIntervalMs } = settings;
    const even = 2 * random() - 1;
    const waitMs = this.#state.well ? intervalMs + intervalJitterMs * even : unhealthyIntervalMs * (1 + JITTER * even);
    this.#cancelCheck();
    this.#cancelCheck = clock.after(Math.max(1, waitMs), () => this.#check());
  }

  #check(): void {
    const { endpoint, model, clock, settings } = this.#options;
    // While the watch is being begun anew, that is the check.
    if (this.#watchSupported && !this.#watch) {
      this.#armCheck();
      return;
    }
    const { path, requestSerialize, responseDeserialize } = HealthService.check;
    const epoch = this.#epoch;
    const deadline = clock.wallMs() + settings.timeoutMs;
    const request = { service: `svc.model/${model}` };
    this.#cancelCheck();
    endpoint.client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      { deadline },
      (error, reply) => {
        if (this.#closed) return;
        const heldUp = error?.code === status.DEADLINE_EXCEEDED && clock.wallMs() > deadline + HELD_UP_MS;
        if (epoch === this.#epoch && !heldUp) this.#checked(reply?.status, error);
        this.#armCheck();
      },
    );
  }

  #checked(now: HealthCheckResponse_ServingStatus | undefined, error: ServiceError | null): void {
    if (now !== undefined) this.#heard(now);
    else if (error?.code === status.NOT_FOUND) this.#heard(HealthCheckResponse_ServingStatus.SERVICE_UNKNOWN);
    else if (error) this.#fail(healthFailure(error));
  }

  #result(change: () => void): void {
    change();
    // Doubt is settled soon, not at the next ordinary check; but what flaps faster than that gets no second pass.
    if (!this.#state.well) this.#armCheck();
    this.#options.onResult();
  }
}
