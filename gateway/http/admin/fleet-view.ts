import { hostname } from "node:os";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Lifecycle } from "../../lifecycle.ts";
import { OVERLOAD_ACTIONS, type OverloadManager } from "../../overload/overload-manager.ts";
import type { Stats } from "../../stats/stats.ts";
import type { ClusterManager } from "../../upstream/cluster/cluster-manager.ts";
import type { ClusterTraffic } from "../../upstream/cluster/cluster-traffic.ts";
import { type ClusterStatus, clusterStatuses, type EndpointStatus } from "./cluster-routes.ts";
import type { EngineOwner } from "./engine-owner.ts";

/** Milliseconds between two snapshots, and over which rates are taken. */
const POINT_MS = 10_000;
/** Milliseconds over which the percentiles of the time to first token are taken. */
const RECENT_MS = 60_000;
/** A minute of snapshots, with the one before. */
const SNAPSHOTS = 1 + RECENT_MS / POINT_MS;

export type FleetParts = {
  readonly clusters: ClusterManager;
  readonly traffic: readonly {
    readonly cluster: { readonly model: string };
    readonly admission: Pick<ClusterTraffic["admission"], "pending">;
  }[];
  readonly stats: Stats;
  readonly lifecycle: Lifecycle;
  readonly overload: Pick<OverloadManager, "isActive" | "pressures">;
  readonly connections: () => number;
  readonly owner: Pick<EngineOwner, "owns">;
  readonly version: string;
  /** The last warnings and errors of the log, as its JSON lines. */
  readonly warnings: () => readonly string[];
  readonly clock: Clock;
};

/** Counts of one model, or of all, since the process started. */
type Counts = {
  requests: number;
  /** Requests that failed for a reason of the service. */
  errors: number;
  /** Written deltas, which stand for tokens, and the tokens of answers that were not streamed. */
  deltas: number;
  promptTokens: number;
  /** Prompt tokens that could have been cached and were not, with their requests, by reason. */
  readonly misses: Map<string, { requests: number; lostTokens: number }>;
  /** Requests by the upper bound of their time to first token in seconds, cumulative as in the histogram. */
  readonly firstTokens: Map<number, number>;
  active: number;
  /** Requests that wait for an endpoint. */
  queued: number;
};

type Snapshot = {
  /** Monotonic, in milliseconds. */
  readonly atMs: number;
  /** By model; "" stands for all requests together. */
  readonly counts: ReadonlyMap<string, Counts>;
};

/** Reads the metrics every ten seconds and keeps the snapshots of the last minute, from which rates are made. */
export class FleetView {
  readonly #parts: FleetParts;
  readonly #startedMs: number;
  #snapshots: readonly Snapshot[];
  /** When each node that gets no requests was first seen so, in milliseconds since the epoch. */
  #downSinceMs: ReadonlyMap<string, number> = new Map();
  #cancel = () => {};

  /** Reads periodically until `close`. The first snapshot is that of an idle process. */
  constructor(parts: FleetParts) {
    this.#parts = parts;
    const { clock } = parts;
    this.#startedMs = clock.nowMs();
    this.#snapshots = [{ atMs: this.#startedMs, counts: new Map() }];
    this.#schedule();
  }

  /** Returns the content of the page now. */
  async view(): Promise<object> {
    const { clusters, lifecycle, overload, connections, version, warnings, clock } = this.#parts;
    const now = await snapshot(this.#parts);
    const statuses = clusterStatuses(clusters, clock.nowMs());
    this.#noteDown(statuses);
    return {
      version,
      nowMs: clock.wallMs(),
      uptimeMs: now.atMs - this.#startedMs,
      host: hostname(),
      state: lifecycle.state(clusters.ready),
      overload: {
        actions: OVERLOAD_ACTIONS.filter((action) => overload.isActive(action)),
        pressures: overload.pressures,
      },
      total: { ...this.#figures(now, ""), connections: connections(), rssBytes: process.memoryUsage.rss() },
      models: statuses.map(({ model: id, lbPolicy, endpoints }) => ({
        model: id,
        lbPolicy,
        nodes: endpoints.length,
        healthy: endpoints.filter(({ healthFlags }) => healthFlags.length === 0).length,
        ...this.#figures(now, id),
        cacheReasons: reasonRows(countsOf(now, id)),
      })),
      nodes: nodeRows(statuses, this.#parts, this.#downSinceMs),
      warnings: warnings().map((line) => JSON.parse(line)),
    };
  }

  close(): void {
    this.#cancel();
  }

  #schedule(): void {
    this.#cancel = this.#parts.clock.after(POINT_MS, () => {
      this.#schedule();
      this.#noteDown(clusterStatuses(this.#parts.clusters, this.#parts.clock.nowMs()));
      void snapshot(this.#parts).then((taken) => {
        this.#snapshots = [...this.#snapshots, taken].slice(-SNAPSHOTS);
      });
    });
  }

  #noteDown(statuses: readonly ClusterStatus[]): void {
    const down = statuses.flatMap(({ endpoints }) => endpoints.filter(({ healthFlags }) => healthFlags.length > 0));
    const nowMs = this.#parts.clock.wallMs();
    this.#downSinceMs = new Map(down.map(({ address }) => [address, this.#downSinceMs.get(address) ?? nowMs]));
  }

  /** Returns the newest snapshot that is at least `ageMs` older than `now`, else the oldest one. */
  #before(now: Snapshot, ageMs: number): Snapshot {
    return this.#snapshots.findLast(({ atMs }) => now.atMs - atMs >= ageMs) ?? this.#snapshots[0] ?? now;
  }

  /** Returns the counts of a model, its rates over the last ten seconds or more, and its recent times to first token. */
  #figures(now: Snapshot, model: string): object {
    const { requests, errors, active, queued, promptTokens } = countsOf(now, model);
    const before = this.#before(now, POINT_MS);
    const seconds = (now.atMs - before.atMs) / 1_000;
    const rate = (count: "requests" | "errors" | "deltas") =>
      seconds > 0 ? (countsOf(now, model)[count] - countsOf(before, model)[count]) / seconds : undefined;
    const recent = countsOf(this.#before(now, RECENT_MS), model);
    return {
      ...{ requests, errors, active, queued, promptTokens },
      ...{ requestsPerSecond: rate("requests"), errorsPerSecond: rate("errors"), tokensPerSecond: rate("deltas") },
      p50Ms: percentileMs(recent, countsOf(now, model), 0.5),
      p95Ms: percentileMs(recent, countsOf(now, model), 0.95),
    };
  }
}

function noCounts(): Counts {
  const numbers = { requests: 0, errors: 0, deltas: 0, promptTokens: 0, active: 0, queued: 0 };
  return { ...numbers, misses: new Map(), firstTokens: new Map() };
}

function countsOf({ counts }: Snapshot, model: string): Counts {
  return counts.get(model) ?? noCounts();
}

/** Calls `count` with the counts of a model and with those of all, where the gateway has the model. */
type CountOf = (model: unknown, count: (counts: Counts) => void) => void;

/** Reads the counts of all models from the metrics. */
async function snapshot({ stats, clusters, traffic, clock }: FleetParts): Promise<Snapshot> {
  const counts = new Map(clusters.clusters.map(({ model }) => [model, noCounts()]));
  const all = noCounts();
  const of: CountOf = (model, count) => {
    const own = counts.get(String(model));
    if (own) for (const one of [own, all]) count(one);
  };
  for (const { value, labels } of (await stats.httpRequests.get()).values) {
    all.requests += value;
    if (labels.outcome === "server_error") all.errors += value;
  }
  for (const { metricName, value, labels } of (await stats.requestDuration.get()).values) {
    const own = counts.get(String(labels.model));
    if (!own || !metricName?.endsWith("_count")) continue;
    own.requests += value;
    if (labels.outcome === "server_error") own.errors += value;
  }
  await addTokens(stats, of);
  await addMisses(stats, of);
  for (const { value, labels } of (await stats.upstream.active.get()).values)
    of(labels.cluster, (one) => {
      one.active += value;
    });
  for (const { cluster, admission } of traffic)
    of(cluster.model, (one) => {
      one.queued += admission.pending;
    });
  counts.set("", all);
  return { atMs: clock.nowMs(), counts };
}

async function addTokens(stats: Stats, of: CountOf): Promise<void> {
  const addDeltas = (model: unknown, deltas: number) =>
    of(model, (one) => {
      one.deltas += deltas;
    });
  for (const { metricName, value, labels } of (await stats.timeToFirstToken.get()).values) {
    if (metricName?.endsWith("_count")) addDeltas(labels.model, value);
    if (!metricName?.endsWith("_bucket")) continue;
    const le = Reflect.get(labels, "le");
    const bound = le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le);
    of(labels.model, ({ firstTokens }) => firstTokens.set(bound, (firstTokens.get(bound) ?? 0) + value));
  }
  for (const { metricName, value, labels } of (await stats.gaps.get()).values)
    if (metricName?.endsWith("_count")) addDeltas(labels.model, value);
  for (const [model, tokens] of stats.foldedTokens) addDeltas(model, tokens);
  for (const { metricName, value, labels } of (await stats.tokens.get()).values)
    if (metricName?.endsWith("_sum") && labels.token_type === "input")
      of(labels.model, (one) => {
        one.promptTokens += value;
      });
}

async function addMisses({ cacheReasons, cacheLostTokens }: Stats, of: CountOf): Promise<void> {
  for (const [metric, field] of [
    [cacheReasons, "requests"],
    [cacheLostTokens, "lostTokens"],
  ] as const)
    for (const { value, labels } of (await metric.get()).values)
      of(labels.model, ({ misses }) => {
        const reason = misses.get(String(labels.reason)) ?? { requests: 0, lostTokens: 0 };
        reason[field] += value;
        misses.set(String(labels.reason), reason);
      });
}

/** Returns a percentile of the times to first token between two snapshots, interpolated as in PromQL. */
function percentileMs(old: Counts, { firstTokens }: Counts, share: number): number | undefined {
  const buckets = [...firstTokens]
    .map(([bound, count]) => ({ bound, count: count - (old.firstTokens.get(bound) ?? 0) }))
    .sort((one, other) => one.bound - other.bound);
  const all = buckets.at(-1)?.count ?? 0;
  const at = buckets.findIndex(({ count }) => count >= share * all);
  const found = buckets[at];
  if (all === 0 || !found) return undefined;
  const below = buckets[at - 1] ?? { bound: 0, count: 0 };
  if (found.bound === Number.POSITIVE_INFINITY) return 1_000 * below.bound;
  const part = (share * all - below.count) / (found.count - below.count);
  return 1_000 * (below.bound + part * (found.bound - below.bound));
}

/** Returns the reasons for cache misses, the most expensive reason first. */
function reasonRows({ misses }: Counts): readonly object[] {
  return [...misses]
    .map(([reason, totals]) => ({ reason, ...totals }))
    .sort((a, b) => b.lostTokens - a.lostTokens || b.requests - a.requests);
}

/** Returns a row for each node, whose calls are those of all its models. */
function nodeRows(
  statuses: readonly ClusterStatus[],
  { clusters: { drained, endpoints }, owner }: FleetParts,
  downSinceMs: ReadonlyMap<string, number>,
): readonly object[] {
  const nodes = new Map<string, { readonly models: string[]; readonly all: EndpointStatus[] }>();
  for (const { model, endpoints: ofModel } of statuses)
    for (const endpoint of ofModel) {
      const node = nodes.get(endpoint.address) ?? { models: [], all: [] };
      node.models.push(model);
      node.all.push(endpoint);
      nodes.set(endpoint.address, node);
    }
  return [...nodes]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([address, { models, all }]) => {
      const sum = (of: (endpoint: EndpointStatus) => number) => all.reduce((total, one) => total + of(one), 0);
      // The reported load is the same under each model of the node: the highest, if they differ.
      const most = (of: (endpoint: EndpointStatus) => number) => Math.max(...all.map(of));
      return {
        address,
        models,
        engine: endpoints.find((endpoint) => endpoint.address === address)?.engine,
        drained: drained.has(address),
        killable: owner.owns(address),
        downSinceMs: downSinceMs.get(address),
        flags: [...new Set(all.flatMap(({ healthFlags }) => healthFlags))],
        active: sum(({ rqActive }) => rqActive),
        total: sum(({ rqTotal }) => rqTotal),
        errors: sum(({ rqError }) => rqError),
        weight: all[0]?.weight,
        healthFailure: all.find(({ healthFailure }) => healthFailure !== undefined)?.healthFailure,
        tokensPerSecond: most(({ tokensPerSecond }) => tokensPerSecond),
        slots: most(({ slots }) => slots),
        running: most(({ running }) => running),
        waiting: most(({ waiting }) => waiting),
        kvUse: most(({ kvUse }) => kvUse),
        outstandingPrefillTokens: most(({ outstandingPrefillTokens }) => outstandingPrefillTokens),
        ejectedForMs: most(({ ejectedForMs = 0 }) => ejectedForMs) || undefined,
      };
    });
}
