import { status } from "@grpc/grpc-js";
import * as z from "zod";
import { milliseconds } from "../../../deploy/runtime/config/process-schema.ts";

export const MAX_EJECTION_MS = 300_000;
/** The share of a cluster's endpoints that may be ejected at a time; one may be, whatever the share. */
const MAX_EJECTION_PERCENT = 50;
/** The time without an ejection after which the number of consecutive ejections decreases by one. */
const FADE_MS = 5_000;

export const outlierSchema = z
  .strictObject({
    consecutiveGatewayFailure: z
      .int()
      .min(0)
      .default(5)
      .describe(
        "Calls in a row that failed by the endpoint's fault (connection, no progress, error status) and eject it; 0 switches ejection off.",
      ),
    baseEjectionTimeMs: milliseconds(
      15_000,
      "The length of the first ejection, in milliseconds; each further one in a row is longer by as much, up to five minutes.",
    ),
  })
  .prefault({})
  .describe(
    "When an endpoint whose calls fail gets no requests for a while; no more than half of the endpoints are ejected at a time.",
  );

export type OutlierSettings = Readonly<z.infer<typeof outlierSchema>>;

/** The end of a call on an endpoint, as far as it concerns the endpoint. */
export type CallEnding =
  | { readonly kind: "completed" }
  /** The node ended the call with a status; `notReady`: its queue is full, it drains, or it still loads. */
  | { readonly kind: "status"; readonly code: status; readonly notReady: boolean }
  | { readonly kind: "connect_failure" }
  /** The connection was lost with the call on it. */
  | { readonly kind: "reset" }
  /** The node sent no `Started`, no first delta, or no progress in time. */
  | { readonly kind: "stalled" }
  | { readonly kind: "protocol_violation" }
  | { readonly kind: "version_mismatch" }
  /** The gateway ended the call: the client disconnected, reads too slowly, or the request's time is over. */
  | { readonly kind: "cancelled" };

/** The meaning of an ending for the health of an endpoint; `neutral` has none. */
export type OutlierOutcome = "success" | "failure" | "neutral";

/** The gRPC statuses caused by the endpoint; all others are caused by the request, or by the gateway. */
const FAILURES: ReadonlySet<status> = new Set([
  status.UNAVAILABLE,
  status.INTERNAL,
  status.DATA_LOSS,
  status.UNKNOWN,
  status.ABORTED,
]);

/** Returns the meaning of an ending: a full queue is load, and a bad request is not the endpoint's fault. */
export function outlierOutcome(ending: CallEnding): OutlierOutcome {
  switch (ending.kind) {
    case "completed":
      return "success";
    case "status":
      return !ending.notReady && FAILURES.has(ending.code) ? "failure" : "neutral";
    case "protocol_violation":
    case "version_mismatch":
    case "connect_failure":
    case "reset":
    case "stalled":
      return "failure";
    case "cancelled":
      return "neutral";
    default:
      return ending satisfies never;
  }
}

export type Ejection = {
  readonly address: string;
  /** Whether the endpoint is ejected; false where too many are ejected already. */
  readonly enforced: boolean;
  /** The monotonic milliseconds at which the ejection ends; meaningless where it is not enforced. */
  readonly untilMs: number;
};

type Host = {
  consecutiveFailures: number;
  ejectedUntilMs: number | undefined;
  /** The number of consecutive ejections, by which the next one is longer. */
  ejections: number;
};

/** Ejects endpoints that fail in a row; no passed check ends that, as health is served while a GPU hangs. */
export class OutlierDetector {
  readonly #settings: OutlierSettings;
  readonly #onChange: (address: string) => void;
  readonly #hosts = new Map<string, Host>();
  #ordered: ReadonlyMap<string, number> = new Map();

  /** `onChange` is called with the address of an endpoint that was ejected or restored, but not at an ejection's regular end. */
  constructor(settings: OutlierSettings, onChange: (address: string) => void = () => {}) {
    this.#settings = settings;
    this.#onChange = onChange;
  }

  add(address: string): void {
    if (!this.#hosts.has(address)) this.#hosts.set(address, newHost());
  }

  forget(address: string): void {
    this.#hosts.delete(address);
  }

  isEjected(address: string, nowMs: number): boolean {
    return nowMs < (this.ejectedUntilMs(address) ?? nowMs);
  }

  /** Returns the monotonic milliseconds at which an endpoint's last ejection ends or ended; undefined without one. */
  ejectedUntilMs(address: string): number | undefined {
    const found = this.#hosts.get(address)?.ejectedUntilMs;
    const ordered = this.#ordered.get(address);
    return found === undefined || ordered === undefined ? (found ?? ordered) : Math.max(found, ordered);
  }

  /** Replaces the ordered ejections: their ends by address. The limit on the share does not apply. */
  setOrdered(untilMs: ReadonlyMap<string, number>, nowMs: number): void {
    const before = this.#ordered;
    this.#ordered = new Map(untilMs);
    for (const [address, endedMs] of before) {
      const host = this.#hosts.get(address);
      // Its slow start begins at the actual end of the ejection.
      if (host && !untilMs.has(address) && endedMs <= nowMs)
        host.ejectedUntilMs = Math.max(endedMs, host.ejectedUntilMs ?? endedMs);
    }
    for (const address of new Set([...before.keys(), ...untilMs.keys()])) {
      if (before.get(address) !== untilMs.get(address)) this.#onChange(address);
    }
  }

  /** Counts the end of a call on an endpoint, and returns the resulting ejection. An unknown address is ignored. */
  report(address: string, outcome: OutlierOutcome, nowMs: number): Ejection | undefined {
    const host = this.#hosts.get(address);
    // Calls from before the ejection that end during it add no information.
    if (!host || outcome === "neutral" || this.isEjected(address, nowMs)) return undefined;
    host.consecutiveFailures = outcome === "failure" ? host.consecutiveFailures + 1 : 0;
    const limit = this.#settings.consecutiveGatewayFailure;
    if (limit === 0 || host.consecutiveFailures < limit) return undefined;
    host.consecutiveFailures = 0;
    return this.#eject(address, host, nowMs);
  }

  /** Restores an endpoint manually, with a clean record; an ordered ejection stays. */
  uneject(address: string): void {
    if (!this.#hosts.has(address)) return;
    this.#hosts.set(address, newHost());
    this.#onChange(address);
  }

  #eject(address: string, host: Host, nowMs: number): Ejection {
    if (!this.#mayEject(nowMs)) return { address, enforced: false, untilMs: nowMs };
    const { baseEjectionTimeMs } = this.#settings;
    // As in Envoy, the longest time is never below the base time.
    const longestMs = Math.max(baseEjectionTimeMs, MAX_EJECTION_MS);
    const faded = Math.floor((nowMs - (host.ejectedUntilMs ?? nowMs)) / FADE_MS);
    // A higher count would overshoot: fading would then take longer than the ejection was.
    host.ejections = Math.min(Math.max(0, host.ejections - faded) + 1, Math.ceil(longestMs / baseEjectionTimeMs));
    host.ejectedUntilMs = nowMs + Math.min(baseEjectionTimeMs * host.ejections, longestMs);
    this.#onChange(address);
    return { address, enforced: true, untilMs: host.ejectedUntilMs };
  }

  #mayEject(nowMs: number): boolean {
    const out = [...this.#hosts.keys()].filter((address) => this.isEjected(address, nowMs)).length;
    return out === 0 || ((out + 1) * 100) / this.#hosts.size <= MAX_EJECTION_PERCENT;
  }
}

function newHost(): Host {
  return { consecutiveFailures: 0, ejectedUntilMs: undefined, ejections: 0 };
}
