import { pino } from "pino";
import { Registry } from "prom-client";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import type { Detail } from "../../../gateway/outcome.ts";
import { UpstreamStats } from "../../../gateway/stats/upstream-stats.ts";
import type { AttemptTrace, CallRecord } from "../../../gateway/upstream/call/call-record.ts";
import type { EventSink } from "../../../gateway/upstream/call/commit-gate.ts";
import type { CallHeaders, Flow } from "../../../gateway/upstream/call/generate-call.ts";
import { HeldRequest } from "../../../gateway/upstream/call/held-request.ts";
import type { Timeouts } from "../../../gateway/upstream/call/timeouts.ts";
import type { Cluster } from "../../../gateway/upstream/cluster.ts";
import { ClusterManager } from "../../../gateway/upstream/cluster-manager.ts";
import type { RoutingHints } from "../../../gateway/upstream/load-balancing/routing-hints.ts";
import { Router, type RouterOptions } from "../../../gateway/upstream/router.ts";
import type { Event, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { generateRequest } from "../requests/generate-request.ts";
import { until } from "../until.ts";
import { VirtualClock } from "../virtual-clock.ts";
import { DEFAULT_BACK_OFF, DEFAULT_REQUEST_OF_DEATH, DEFAULT_TIMEOUTS } from "./default-settings.ts";

export const HINTS: RoutingHints = {
  prefixKey: Buffer.alloc(32, 1),
  digest: (...parts) => parts.join("|"),
  headers: {},
  priorityClass: "default",
  weight: 1,
  keyId: "key",
  maxPendingRequests: undefined,
};

export type FrontRigOptions = {
  /** Over the settings of the one cluster, of `svc-qwen`. */
  readonly cluster?: Readonly<Record<string, unknown>>;
  readonly timeouts?: Partial<Timeouts>;
  readonly router?: Partial<Pick<RouterOptions, "numRetries" | "random" | "retryBackOff">>;
  /** Endpoints that must be healthy before the test begins; default: all. */
  readonly healthy?: number;
};

/** Notes the calls that are made for one request. */
export class CallNotes implements CallRecord {
  attempts = 0;
  /** The address of the endpoint that was called last. */
  endpoint: string | undefined;
  /** The tokens of the calls that failed, in their order. */
  readonly failedTries: Detail[] = [];

  generateSent(address: string): AttemptTrace {
    return { headers: this.countSent(address), ended() {} };
  }

  countSent(address: string): CallHeaders {
    this.attempts += 1;
    this.endpoint = address;
    return {};
  }

  tryFailed(detail: Detail): void {
    this.failedTries.push(detail);
  }
}

/** A request on its way through the router. */
export type Sent = {
  readonly calls: CallNotes;
  /** What was passed on. */
  readonly events: Event[];
  /** Of the newest message. */
  flow(): Flow;
  leave(): void;
  /** `ok`, or the detail token of the failure. */
  readonly outcome: Promise<string>;
};

/** The router over real gRPC, in virtual time: from the discovered endpoints to the events that are passed on. */
export class FrontRig {
  readonly clock = new VirtualClock();
  readonly manager: ClusterManager;
  readonly router: Router;
  readonly registry = new Registry();
  readonly #healthy: number;

  constructor(endpoints: readonly (string | object)[], options: FrontRigOptions = {}) {
    const specs = endpoints.map((endpoint) => (typeof endpoint === "string" ? { address: endpoint } : endpoint));
    const clusters = [{ model: "svc-qwen", endpoints: specs, ...options.cluster }];
    const config = checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters }, "test");
    this.manager = new ClusterManager(config.clusters, this.clock, pino({ level: "silent" }), { random: () => 0.5 });
    this.router = new Router({
      clusters: this.manager,
      clock: this.clock,
      timeouts: { ...DEFAULT_TIMEOUTS, ...options.timeouts },
      numRetries: 2,
      retryBackOff: DEFAULT_BACK_OFF,
      requestOfDeath: DEFAULT_REQUEST_OF_DEATH,
      random: () => 0,
      stats: new UpstreamStats(this.registry),
      ...options.router,
    });
    this.#healthy = options.healthy ?? specs.length;
  }

  get cluster(): Cluster {
    const [cluster] = this.manager.clusters;
    if (!cluster) throw new Error("there is no cluster");
    return cluster;
  }

  async ready(): Promise<this> {
    await until(() => this.cluster.healthyEndpoints.length === this.#healthy, "the endpoints are healthy");
    return this;
  }

  /** `folded`: nothing leaves the gateway before the end, so that a try may be repeated to the end. */
  send(request: GenerateRequest = generateRequest(), { folded = false, timeoutMs = 600_000 } = {}): Sent {
    const controller = new AbortController();
    const events: Event[] = [];
    const calls = new CallNotes();
    let newest: Flow | undefined;
    const take: EventSink["events"] = (more, flow) => {
      newest = flow;
      events.push(...more);
    };
    const sink: EventSink = folded ? { events: take, restart: () => events.splice(0) } : { events: take };
    const outcome = this.router
      .dispatch(
        { request: new HeldRequest(request, 0), hints: HINTS, timeoutMs, sink, record: calls },
        controller.signal,
      )
      .then(() => "ok")
      .catch((error) => error.detail ?? String(error));
    return {
      calls,
      events,
      outcome,
      flow() {
        if (!newest) throw new Error("no event was passed on");
        return newest;
      },
      leave: () => controller.abort(),
    };
  }

  /** Nothing runs and nothing waits any more. */
  async atRest(): Promise<void> {
    const rest = () =>
      this.manager.endpoints.every(({ activeRequests }) => activeRequests === 0) &&
      this.router.traffic.every(({ admission }) => admission.breaker.activeAndPending === 0 && admission.pending === 0);
    await until(rest, "nothing runs or waits");
  }

  close(): void {
    this.manager.close();
  }
}
