import { pino } from "pino";
import { Registry } from "prom-client";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import type { Detail } from "../../../gateway/outcome.ts";
import { UpstreamStats } from "../../../gateway/stats/upstream-stats.ts";
import type { CallRecord } from "../../../gateway/upstream/call/call-record.ts";
import type { EventSink, Flow } from "../../../gateway/upstream/call/retry-boundary.ts";
import type { Timeouts } from "../../../gateway/upstream/call/timeouts.ts";
import type { Cluster } from "../../../gateway/upstream/cluster/cluster.ts";
import { ClusterManager } from "../../../gateway/upstream/cluster/cluster-manager.ts";
import { ContinuationBudget, type NotKept } from "../../../gateway/upstream/continuation/continuation-budget.ts";
import type { CacheNote } from "../../../gateway/upstream/load-balancing/cache-reasons.ts";
import type { RoutingHints } from "../../../gateway/upstream/load-balancing/route.ts";
import { encodeRequest, type PromptFacts } from "../../../gateway/upstream/request/encoded-request.ts";
import { RequestBuffer } from "../../../gateway/upstream/request/request-buffer.ts";
import { Router, type RouterOptions } from "../../../gateway/upstream/router.ts";
import type { CallHeaders, WireKind } from "../../../gateway/upstream/wire/generate-wire.ts";
import {
  CountTokensRequest,
  type Event,
  type GenerateRequest,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { delta } from "../events/events.ts";
import { generateRequest } from "../requests/generate-request.ts";
import { until } from "../until.ts";
import { VirtualClock } from "../virtual-clock.ts";
import { DEFAULT_TIMEOUTS } from "./default-settings.ts";

/** Hints of a request without session, of a tenant of weight 1 in the default class. */
export const HINTS: RoutingHints = {
  digest: (...parts) => parts.join("|"),
  headers: {},
  priorityClass: "default",
  weight: 1,
  keyId: "key",
  maxPendingRequests: undefined,
};

const PREFIX_KEY = Buffer.alloc(32, 1);

/** Returns a request in the bytes of the contract, held as the gateway holds one, and what matters on its way. */
export function encoded(request: GenerateRequest): { readonly request: RequestBuffer; readonly facts: PromptFacts } {
  const { bytes, facts } = encodeRequest(request, PREFIX_KEY);
  return { request: new RequestBuffer({ bytes }, request.tenant), facts };
}

export function encodedCount(model = "svc-qwen"): RequestBuffer {
  return new RequestBuffer(
    { bytes: CountTokensRequest.encode(CountTokensRequest.fromPartial({ model })).finish() },
    "",
  );
}

export type FrontRigOptions = {
  readonly cluster?: Readonly<Record<string, unknown>>;
  readonly timeouts?: Partial<Timeouts>;
  readonly router?: Partial<Pick<RouterOptions, "random" | "leastMovedTokens">>;
  /** The memory for kept answers, in bytes; `maxBytes` is 0 by default, so that none is continued. */
  readonly continuation?: { readonly maxBytes?: number };
  /** What carries the calls. Default: `SVC_TEST_WIRE`, else what the configuration has by default. */
  readonly wire?: WireKind;
  /** The number of endpoints that must be healthy before the test begins. Default: all of them. */
  readonly healthy?: number;
};

export class CallNotes implements CallRecord {
  attempts = 0;
  endpoint: string | undefined;
  readonly failedAttempts: Detail[] = [];
  /** The token counts from which calls continued an answer, in order. */
  readonly continuedFrom: number[] = [];
  readonly notKeptFor: NotKept[] = [];
  /** The cached tokens of the newest call whose engine reported them. */
  cache: CacheNote | undefined;
  wasOverdue = false;
  prefilledAt: string | undefined;

  generateSent(address: string, continuedTokens?: number): CallHeaders {
    if (continuedTokens !== undefined) this.continuedFrom.push(continuedTokens);
    return this.countSent(address);
  }

  generateEnded(): void {}

  prefillSent(): CallHeaders {
    return {};
  }

  prefilledOn(address: string | undefined): void {
    this.prefilledAt = address;
  }

  countSent(address: string): CallHeaders {
    this.attempts += 1;
    this.endpoint = address;
    return {};
  }

  notKept(why: NotKept): void {
    this.notKeptFor.push(why);
  }

  overdue(): void {
    this.wasOverdue = true;
  }

  cached(note: CacheNote): void {
    this.cache = note;
  }

  attemptFailed(detail: Detail): void {
    this.failedAttempts.push(detail);
  }
}

function openBlock(events: readonly Event[]): number {
  const kinds = events.flatMap(({ kind }) => (kind?.$case === "blockStarted" ? kind.value.index : []));
  return kinds.at(-1) ?? 0;
}

/** The router over real gRPC, in virtual time: from discovered endpoints to delivered events. */
export class FrontRig {
  readonly clock = new VirtualClock();
  readonly manager: ClusterManager;
  readonly router: Router;
  readonly registry = new Registry();
  readonly continuationBudget: ContinuationBudget;
  readonly #healthy: number;

  constructor(endpoints: readonly (string | object)[], options: FrontRigOptions = {}) {
    const specs = endpoints.map((endpoint) => (typeof endpoint === "string" ? { address: endpoint } : endpoint));
    const clusters = [{ model: "svc-qwen", endpoints: specs, ...options.cluster }];
    const upstream = { wire: options.wire ?? process.env.SVC_TEST_WIRE };
    const config = checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters, upstream }, "test");
    const { wire } = config.upstream;
    this.manager = new ClusterManager(config.clusters, this.clock, pino({ level: "silent" }), {
      ...{ random: () => 0.5, wire },
    });
    const maxBytes = options.continuation?.maxBytes ?? 0;
    this.continuationBudget = new ContinuationBudget({ maxBytes });
    this.router = new Router({
      clusters: this.manager,
      clock: this.clock,
      timeouts: { ...DEFAULT_TIMEOUTS, ...options.timeouts },
      continuationBudget: this.continuationBudget,
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

  /** With `folded` no event leaves the gateway before the end, so that an attempt may be repeated until then. */
  send(request: GenerateRequest = generateRequest(), { folded = false, timeoutMs = 600_000, keepsAlive = false } = {}) {
    const controller = new AbortController();
    const events: Event[] = [];
    const calls = new CallNotes();
    let newest: Flow | undefined;
    const take: EventSink["events"] = (more, flow) => {
      newest = flow;
      events.push(...more);
    };
    const deltas: EventSink["deltas"] = ({ texts }, flow) => {
      const index = openBlock(events);
      take(
        texts.map((text) => delta(index, text)),
        flow,
      );
    };
    const sink: EventSink = { events: take, deltas, ...(folded && { restart: () => events.splice(0) }) };
    const outcome: Promise<string> = this.router
      .dispatch({ ...encoded(request), hints: HINTS, timeoutMs, keepsAlive, sink, record: calls }, controller.signal)
      .then(() => "ok")
      .catch((error) => error.detail ?? String(error));
    return {
      calls,
      events,
      outcome,
      flow(): Flow {
        if (!newest) throw new Error("no event was passed on");
        return newest;
      },
      leave: () => controller.abort(),
    };
  }

  async atRest(): Promise<void> {
    const rest = () =>
      this.manager.endpoints.every(({ activeRequests }) => activeRequests === 0) &&
      this.router.traffic.every(({ admission }) => admission.active === 0 && admission.pending === 0);
    await until(rest, "nothing runs or waits");
  }

  close(): void {
    this.manager.close();
  }
}
