import { hostname } from "node:os";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { type FleetHistory, type FleetPoint, type GatewayCounts, POINT_MS } from "../../../fleet/fleet-history.ts";
import type { Lifecycle } from "../../../lifecycle.ts";
import type { LiveTotals, ModelTotals } from "../../../stats/live-totals.ts";
import type { ClusterManager } from "../../../upstream/cluster-manager.ts";
import { type ClusterStatus, clusterStatuses, type EndpointStatus } from "./cluster-status.ts";

const SHARES = [0.5, 0.95];

/** The sources of the admin page. */
export type FleetParts = {
  readonly clusters: ClusterManager;
  readonly live: LiveTotals;
  readonly history: FleetHistory;
  readonly lifecycle: Lifecycle;
  /** Returns the number of connections of the public listener. */
  readonly connections: () => number;
  readonly clock: Clock;
};

/** The content of the admin page: this gateway, its models and its nodes. */
export type FleetView = {
  readonly host: string;
  /** The state of the gateway in Envoy's terms. */
  readonly state: string;
  /** The sums over all models, and the resources of the process. */
  readonly total: object;
  readonly models: readonly object[];
  /** A row for each node, with all of its models. */
  readonly nodes: readonly object[];
  /** The points of the charts, and the span of each in milliseconds. */
  readonly history: { readonly pointMs: number; readonly points: readonly FleetPoint[] };
};

/** The points of the charts that a request selects. */
export type WantedPoints = {
  /** The catalog id of the model; "" for all models together. */
  readonly model: string;
  /** The time, in milliseconds since the epoch, after which the points end. */
  readonly sinceMs: number;
};

/** Returns the content of the page at this moment. */
export function fleetView(parts: FleetParts, { model, sinceMs }: WantedPoints): FleetView {
  const { clusters, live, history, lifecycle, connections, clock } = parts;
  const statuses = clusterStatuses(clusters, clock.nowMs());
  const { models, withoutModel } = history.counts;
  return {
    host: hostname(),
    state: lifecycle.state(clusters.ready),
    total: {
      ...ratesOf(history, ""),
      requests: withoutModel.requests + sum(models, ({ requests }) => requests),
      errors: withoutModel.errors + sum(models, ({ errors }) => errors),
      active: sum(models, ({ active }) => active),
      queued: sum(models, ({ queued }) => queued),
      connections: connections(),
      rssBytes: process.memoryUsage.rss(),
    },
    models: modelRows(models, statuses, live, history),
    nodes: nodeRows(statuses, clusters.drained, live, history),
    history: { pointMs: POINT_MS, points: history.points(model).filter(({ atMs }) => atMs > sinceMs) },
  };
}

function modelRows(
  all: GatewayCounts["models"],
  statuses: readonly ClusterStatus[],
  live: LiveTotals,
  history: FleetHistory,
): readonly object[] {
  return all.map(({ model, active, queued, requests, errors, promptTokens }) => {
    const status = statuses.find((one) => one.model === model);
    return {
      model,
      lbPolicy: status?.lbPolicy,
      nodes: status?.endpoints.length ?? 0,
      healthy: status?.endpoints.filter(({ healthFlags }) => healthFlags.length === 0).length ?? 0,
      ...ratesOf(history, model),
      ...{ active, queued, requests, errors, promptTokens },
      cacheReasons: cacheReasonRows(live.model(model).cacheReasons),
    };
  });
}

/** Returns the reasons for cache misses of a model's prompts, the most expensive reason first. */
function cacheReasonRows(reasons: ModelTotals["cacheReasons"]): readonly object[] {
  return [...reasons]
    .map(([reason, totals]) => ({ reason, ...totals }))
    .sort((a, b) => b.lostTokens - a.lostTokens || b.requests - a.requests);
}

/** Returns the newest rates a second, and the times to first token of the last minute. */
function ratesOf(history: FleetHistory, model: string): object {
  const { spanMs, requests, errors, deltas } = history.newest(model);
  const [p50Ms, p95Ms] = history.recentFirstTokens(model, SHARES);
  if (spanMs === 0) return { p50Ms, p95Ms };
  const rate = (count: number) => (1_000 * count) / spanMs;
  return {
    requestsPerSecond: rate(requests),
    errorsPerSecond: rate(errors),
    tokensPerSecond: rate(deltas),
    p50Ms,
    p95Ms,
  };
}

/** Returns a row for each node, whose calls are those of all its models. */
function nodeRows(
  statuses: readonly ClusterStatus[],
  drained: ReadonlySet<string>,
  live: LiveTotals,
  history: FleetHistory,
): readonly object[] {
  const nodes = new Map<string, { readonly models: string[]; readonly all: EndpointStatus[] }>();
  for (const { model, endpoints } of statuses)
    for (const endpoint of endpoints) {
      const { models, all } = nodes.get(endpoint.address) ?? { models: [], all: [] };
      nodes.set(endpoint.address, { models: [...models, model], all: [...all, endpoint] });
    }
  return [...nodes]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([address, { models, all }]) => ({
      address,
      models,
      drained: drained.has(address),
      tokensPerSecond: history.nodeTokensPerSecond(address),
      flags: [...new Set(all.flatMap(({ healthFlags }) => healthFlags))],
      active: sum(all, ({ rqActive }) => rqActive),
      total: sum(all, ({ rqTotal }) => rqTotal),
      errors: sum(all, ({ rqError }) => rqError),
      deltas: live.endpoint(address).deltas,
      ...loadOf(all),
    }));
}

/** Returns the reported load of a node, which is the same under each of its models: the highest, if they differ. */
function loadOf(all: readonly EndpointStatus[]): object {
  const [first] = all;
  if (!first) return {};
  const most = (of: (endpoint: EndpointStatus) => number) => Math.max(...all.map(of));
  return {
    weight: first.weight,
    healthFailure: all.find(({ healthFailure }) => healthFailure !== undefined)?.healthFailure,
    slots: most(({ slots }) => slots),
    running: most(({ running }) => running),
    waiting: most(({ waiting }) => waiting),
    kvUse: most(({ kvUse }) => kvUse),
    outstandingPrefillTokens: most(({ outstandingPrefillTokens }) => outstandingPrefillTokens),
    ejectedForMs: most(({ ejectedForMs = 0 }) => ejectedForMs) || undefined,
  };
}

function sum<T>(list: readonly T[], of: (item: T) => number): number {
  return list.reduce((total, item) => total + of(item), 0);
}
