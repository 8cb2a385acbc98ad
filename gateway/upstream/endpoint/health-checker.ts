import { type ClientReadableStream, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { HealthCheckResponse_ServingStatus, HealthService } from "../../../proto/gen/grpc/health/v1/health.ts";
import type { Endpoint, NodeAnswer } from "./endpoint.ts";

type HealthReply = ReturnType<typeof HealthService.watch.responseDeserialize>;

export const healthCheckSchema = z
  .strictObject({
    intervalMs: milliseconds(
      5_000,
      "Milliseconds between two checks of an endpoint that is well; what it says itself counts at once.",
    ),
    timeoutMs: milliseconds(2_000, "The longest time that the answer to a check may take, in milliseconds."),
  })
  .prefault({})
  .describe("How the health of the model is checked on each endpoint.");

export type HealthCheckSettings = Readonly<z.infer<typeof healthCheckSchema>>;

/** The number of passed checks in a row that make an endpoint healthy again. */
const HEALTHY_THRESHOLD = 2;
/** The number of failed checks in a row that make an endpoint unhealthy. */
const UNHEALTHY_THRESHOLD = 2;
/** The longest time between two checks of an endpoint that is not well, or about which a check has raised doubt. */
const MAX_UNHEALTHY_INTERVAL_MS = 1_000;
const STEADY_WATCH_MS = 1_000;
const MIN_REWATCH_MS = 100;
const JITTER = 0.2;
/** A check that ends later than this shows that this process was stalled: the node's answer may be unread. */
const HELD_UP_MS = 250;

/** Connection errors of grpc-js and the system, and their meaning for operators; first match wins. */
const CONNECTION: readonly (readonly [RegExp, string])[] = [
  [/self-signed|unable to (get|verify)|issuer/, "its certificate is not signed by the authority in tls.caFile"],
  [/ERR_TLS_CERT_ALTNAME_INVALID/, "its certificate is for another name: see tls.serverName"],
  [/certificate has expired|not yet valid/, "its certificate is not valid at this time"],
  [/alert certificate required|handshake failure/, "it asks for a certificate: see tls.certFile"],
  [/SSL alert|alert (bad|unknown|unsupported)/, "it refuses the certificate in tls.certFile"],
  [/wrong version number|packet length too long/, "it does not speak TLS"],
  [/ECONNREFUSED/, "connection refused"],
  [/ENOTFOUND|EAI_AGAIN|Name resolution/, "its host name has no address"],
  [/EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/, "unreachable"],
  // The behaviour of a peer that requires TLS, or another certificate, and sends no error.
  [/Failed to connect/, "it closes the connection while it is set up: see tls"],
];

/** Returns why a node is not healthy, in words for operators, from a failed call. */
export function healthFailure({ code, details }: { readonly code: status; readonly details: string }): string {
  if (code === status.DEADLINE_EXCEEDED) return "no answer in time";
  if (code === status.PERMISSION_DENIED) return "it answers with PERMISSION_DENIED: see its tls.allowedClientNames";
  if (code !== status.UNAVAILABLE) return `it answers with ${status[code] ?? code}`;
  return CONNECTION.find(([error]) => error.test(details))?.[1] ?? "connection lost";
}

/** Judges consecutive checks by Envoy's thresholds; the first check decides alone. */
export class HealthState {
  #status: "pending" | "healthy" | "unhealthy" = "pending";
  #against = 0;

  get healthy(): boolean {
    return this.#status === "healthy";
  }

  /** Whether the status is healthy and the newest check passed. */
  get well(): boolean {
    return this.#status === "healthy" && this.#against === 0;
  }

  pass(): void {
    this.#count("healthy", HEALTHY_THRESHOLD);
  }

  fail(): void {
    this.#count("unhealthy", UNHEALTHY_THRESHOLD);
  }

  /** Makes the state unhealthy at once, for example after the node's own NOT_SERVING. */
  failNow(): void {
    this.#become("unhealthy");
  }

  #count(result: "healthy" | "unhealthy", threshold: number): void {
    if (this.#status !== "pending" && this.#status !== result) {
      this.#against += 1;
      if (this.#against < threshold) return;
    }
    this.#become(result);
  }

  #become(status: "healthy" | "unhealthy"): void {
    this.#status = status;
    this.#against = 0;
  }
}

export type HealthCheckerOptions = {
  readonly endpoint: Endpoint;
  readonly model: string;
  readonly settings: HealthCheckSettings;
  readonly clock: Clock;
  readonly random: () => number;
  readonly onResult: () => void;
};

/**
 * Checks the health of one model on one endpoint: by `Health.Watch`, which reports changes at once, and a periodic
 * `Check`, which detects a silent node. A node's own NOT_SERVING counts at once, all else by the thresholds. The node
 * must describe itself first, and again after every lost connection: another one may then be at the address.
 */
export class HealthChecker {
  readonly #options: HealthCheckerOptions;
  readonly #state = new HealthState();
  readonly #stopListening: () => void;
  #watch: { readonly call: ClientReadableStream<HealthReply>; readonly sinceMs: number } | undefined;
  #watchSupported = true;
  #rewatchMs = MIN_REWATCH_MS;
  /** Whether the node has the model and speaks the contract; undefined before its description on this connection. */
  #compatible: boolean | undefined;
  /** Whether the node does not have the model, or speaks another contract. */
  mismatch = false;
  /** The reason why the newest check failed, for operators; undefined when it passed. */
  failure: string | undefined;
  #lastStatus: HealthCheckResponse_ServingStatus | undefined;
  /** Whether the node answered the newest check, with any result. */
  answers = false;
  /** Incremented to invalidate answers still in flight. */
  #epoch = 0;
  #cancelRewatch: () => void = () => {};
  #cancelCheck: () => void = () => {};
  #closed = false;

  constructor(options: HealthCheckerOptions) {
    this.#options = options;
    this.#stopListening = options.endpoint.onFailHealthNow(() => this.#failNow("it wants no more calls"));
  }

  get healthy(): boolean {
    return this.#state.healthy;
  }

  get refusing(): boolean {
    return this.#lastStatus !== undefined && this.#lastStatus !== HealthCheckResponse_ServingStatus.SERVING;
  }

  start(): void {
    this.#openWatch();
    this.#armCheck();
  }

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
      this.#reported(reply.status);
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
    this.#rewatchMs = Math.min(unhealthyIntervalMs(settings), 2 * this.#rewatchMs);
    this.#cancelRewatch = clock.after(waitMs, () => this.#openWatch());
  }

  #reported(now: HealthCheckResponse_ServingStatus): void {
    this.#lastStatus = now;
    this.answers = true;
    if (now === HealthCheckResponse_ServingStatus.SERVING) {
      this.#passed();
    } else {
      // SERVICE_UNKNOWN may come from a node without the model: its description decides.
      if (now === HealthCheckResponse_ServingStatus.SERVICE_UNKNOWN) this.#checkModel();
      this.#failNow("it says that it does not serve the model");
    }
  }

  #failNow(why: string): void {
    this.#epoch += 1;
    this.failure = why;
    this.#result(() => this.#state.failNow());
  }

  #fail(why: string): void {
    this.answers = false;
    this.failure = why;
    this.#result(() => this.#state.fail());
  }

  #pass(): void {
    this.failure = undefined;
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
      if (answer.kind === "unreachable") return this.#fail(healthFailure(answer.error));
      this.#compatible = this.#hasModel(answer);
      this.mismatch = !this.#compatible;
      this.#pass();
    });
  }

  #checkModel(): void {
    const watch = this.#watch;
    void this.#describe().then((answer) => {
      // A node that has not determined its models yet describes itself with an empty list.
      if (this.#closed || this.#watch !== watch || answer.kind === "unreachable") return;
      if (answer.kind === "described" && answer.models.length === 0) return;
      this.#result(() => {
        this.mismatch = !this.#hasModel(answer);
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
    const intervalMs = this.#state.well ? settings.intervalMs : unhealthyIntervalMs(settings);
    this.#cancelCheck();
    this.#cancelCheck = clock.after(intervalMs * (1 + JITTER * (2 * random() - 1)), () => this.#check());
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
    if (now !== undefined) this.#reported(now);
    else if (error?.code === status.NOT_FOUND) this.#reported(HealthCheckResponse_ServingStatus.SERVICE_UNKNOWN);
    else if (error) this.#fail(healthFailure(error));
  }

  #result(change: () => void): void {
    change();
    // Doubt shortens the time to the next check; faster flapping gets no second pass.
    if (!this.#state.well) this.#armCheck();
    this.#options.onResult();
  }
}

function unhealthyIntervalMs({ intervalMs }: HealthCheckSettings): number {
  return Math.min(MAX_UNHEALTHY_INTERVAL_MS, intervalMs);
}
