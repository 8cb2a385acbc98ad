import { type ClientReadableStream, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { HealthCheckResponse_ServingStatus, HealthService } from "../../../proto/gen/grpc/health/v1/health.ts";
import type { NodeAnswer } from "../endpoint/describe-node.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import { healthFailure } from "../endpoint/health-failure.ts";
import type { HealthCheckSettings } from "./health-settings.ts";
import { HealthState } from "./health-state.ts";

type HealthReply = ReturnType<typeof HealthService.watch.responseDeserialize>;

/** The lifetime from which a broken watch is reopened at once, in milliseconds. */
const STEADY_WATCH_MS = 1_000;
const MIN_REWATCH_MS = 100;
const JITTER = 0.2;
/**
 * The tolerated lateness of the end of a check, in milliseconds. Beyond it this process was stalled, and the node's
 * answer may be unread.
 */
const HELD_UP_MS = 250;

export type HealthCheckerOptions = {
  readonly endpoint: Endpoint;
  /** The catalog id of the checked model. */
  readonly model: string;
  /** The interval, timeout and thresholds of the checks. */
  readonly settings: HealthCheckSettings;
  readonly clock: Clock;
  /** Returns a random number uniform over [0, 1). */
  readonly random: () => number;
  /** Called when health or compatibility may have changed. */
  readonly onResult: () => void;
};

/**
 * Checks the health of one model on one endpoint by `grpc.health.v1.Health`. `Watch` reports a change at once; a
 * periodic `Check` detects a node that has gone silent. A node's own NOT_SERVING counts at once; unreachability and
 * passes count by the thresholds. An endpoint becomes healthy only after it has described itself, and again after every
 * loss of the connection: another node may then be at the address.
 */
export class HealthChecker {
  readonly #options: HealthCheckerOptions;
  readonly #state: HealthState;
  readonly #stopListening: () => void;
  #watch: { readonly call: ClientReadableStream<HealthReply>; readonly sinceMs: number } | undefined;
  #watchSupported = true;
  #rewatchMs = MIN_REWATCH_MS;
  /**
   * Whether the node speaks the contract and has the model; undefined before its description, and after a lost
   * connection.
   */
  #compatible: boolean | undefined;
  #mismatch = false;
  #failure: string | undefined;
  /** The node's last reported status; undefined before any. */
  #said: HealthCheckResponse_ServingStatus | undefined;
  /** Whether the node answered the newest check, with any result. */
  #answers = false;
  /** Incremented to invalidate answers still in flight. */
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

  /** Whether the node's last status was that it does not serve. */
  get refusing(): boolean {
    return this.#said !== undefined && this.#said !== HealthCheckResponse_ServingStatus.SERVING;
  }

  /** Whether the node answered the newest check, with any result. */
  get answers(): boolean {
    return this.#answers;
  }

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
    // Repeated by the status, which also reports a stream that the node ended normally.
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
      // SERVICE_UNKNOWN may come from a node without the model: its description decides.
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
    // The checks have their own connection: the one for calls may have been lost with the previous node.
    this.#options.endpoint.wire.warm();
    this.#result(() => this.#state.pass());
  }

  /** Counts a check that passed. A serving node counts as well only after its description. */
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
      // A node that has not determined its models yet describes itself with an empty list.
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
    // While the watch is being reopened, it replaces the check.
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
    // Doubt shortens the time to the next check; faster flapping gets no second pass.
    if (!this.#state.well) this.#armCheck();
    this.#options.onResult();
  }
}
