import type { Fleet } from "../../../fleet/fleet.ts";
import { type FleetPoint, POINT_MS } from "../../../fleet/fleet-history.ts";
import type { GatewayReport, SeenReport } from "../../../fleet/gateway-report.ts";
import type { ClusterStatus, EndpointStatus } from "./cluster-status.ts";

const SHARES = [0.5, 0.95];

/** What the page for people shows of the fleet. */
export type FleetView = {
  /** Whether the reports of all gateways are known: false while whoever carries them is silent. */
  readonly shared: boolean;
  /** The name of the machine that was asked. */
  readonly host: string;
  /** The sums over all gateways that answer. */
  readonly total: object;
  /** A row for each gateway, in the order of machines and workers. */
  readonly gateways: readonly object[];
  /** A row for each model that some gateway serves. */
  readonly models: readonly object[];
  /** A row for each node that some gateway knows, whatever models it has. */
  readonly nodes: readonly object[];
  /** The points of the charts, and the span of each in milliseconds. */
  readonly history: { readonly pointMs: number; readonly points: readonly FleetPoint[] };
};

/** What the gateway that is asked knows of the nodes. */
export type KnownHere = {
  /** The state of the clusters and their endpoints. */
  readonly statuses: readonly ClusterStatus[];
  /** The addresses that are drained by order. */
  readonly drained: ReadonlySet<string>;
};

/** The points of the charts that are asked for. */
export type WantedPoints = {
  /** The catalog id of the model that they are of; "" for all models together. */
  readonly model: string;
  /** The time, in milliseconds since the epoch, than which they are newer. */
  readonly sinceMs: number;
};

/** Returns what the page shows: what all gateways told, and `known`, what the one that is asked knows itself. */
export function fleetView(
  fleet: Pick<Fleet, "seen" | "shared" | "history" | "lateMs">,
  known: KnownHere,
  host: string,
  { model, sinceMs }: WantedPoints,
): FleetView {
  const { seen, shared, history, lateMs } = fleet;
  const isLate = ({ ageMs }: SeenReport) => ageMs >= lateMs;
  const living = seen.filter((one) => !isLate(one)).map(({ report }) => report);
  const inOrder = [...seen].sort(
    ({ report: a }, { report: b }) => a.host.localeCompare(b.host) || a.worker - b.worker || a.uptimeMs - b.uptimeMs,
  );
  return {
    shared,
    host,
    total: {
      ...ratesOf(history, ""),
      active: sum(living, (report) => sum(report.models, ({ active }) => active)),
      queued: sum(living, (report) => sum(report.models, ({ queued }) => queued)),
      connections: sum(living, ({ connections }) => connections),
      rssBytes: sum(living, ({ rssBytes }) => rssBytes),
    },
    gateways: inOrder.map((one) => gatewayRow(one, isLate(one))),
    models: modelRows(living, known.statuses, history),
    nodes: nodeRows(living, known, history),
    history: { pointMs: POINT_MS, points: history.points(model).filter(({ atMs }) => atMs > sinceMs) },
  };
}

function gatewayRow({ report, ageMs }: SeenReport, late: boolean): object {
  const { id, host, worker, state, uptimeMs, connections, rssBytes, cpuMs, loopActiveMs, models, withoutModel } =
    report;
  return {
    id,
    host,
    worker,
    state: late ? "no answer" : state,
    ageMs,
    uptimeMs,
    connections,
    rssBytes,
    cpuMs,
    loopActiveMs,
    active: sum(models, ({ active }) => active),
    requests: withoutModel.requests + sum(models, ({ requests }) => requests),
    errors: withoutModel.errors + sum(models, ({ errors }) => errors),
    deltas: sum(models, ({ deltas }) => deltas),
  };
}

function modelRows(
  reports: readonly GatewayReport[],
  statuses: readonly ClusterStatus[],
  history: Fleet["history"],
): readonly object[] {
  const names = [...new Set(reports.flatMap(({ models }) => models.map(({ model }) => model)))];
  return names.map((name) => {
    const status = statuses.find(({ model }) => model === name);
    const told = reports.flatMap(({ models }) => models.filter(({ model }) => model === name));
    return {
      model: name,
      lbPolicy: status?.lbPolicy,
      nodes: status?.endpoints.length ?? 0,
      healthy: status?.endpoints.filter(({ healthFlags }) => healthFlags.length === 0).length ?? 0,
      ...ratesOf(history, name),
      active: sum(told, ({ active }) => active),
      queued: sum(told, ({ queued }) => queued),
      requests: sum(told, ({ requests }) => requests),
      errors: sum(told, ({ errors }) => errors),
      promptTokens: sum(told, ({ promptTokens }) => promptTokens),
      cacheReasons: cacheReasonRows(told),
    };
  });
}

/** Returns why prompts of a model were not in caches as far as they might have been, the dearest reason first. */
function cacheReasonRows(told: GatewayReport["models"]): readonly object[] {
  const all = told.flatMap(({ cacheReasons }) => cacheReasons);
  const rows = [...new Set(all.map(({ reason }) => reason))].map((name) => {
    const same = all.filter(({ reason }) => reason === name);
    const requests = sum(same, (one) => one.requests);
    return { reason: name, requests, lostTokens: sum(same, ({ lostTokens }) => lostTokens) };
  });
  return rows.sort((a, b) => b.lostTokens - a.lostTokens || b.requests - a.requests);
}

/** Returns what went on since the look before, a second, and how long first tokens took in the last minute. */
function ratesOf(history: Fleet["history"], model: string): object {
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

/** Returns a row for each node. What it reports of itself is what the gateway that is asked has heard. */
function nodeRows(
  reports: readonly GatewayReport[],
  { statuses, drained }: KnownHere,
  history: Fleet["history"],
): readonly object[] {
  const known = new Map<string, { readonly models: string[]; readonly all: EndpointStatus[] }>();
  for (const { model, endpoints } of statuses)
    for (const endpoint of endpoints) {
      const { models, all } = known.get(endpoint.address) ?? { models: [], all: [] };
      known.set(endpoint.address, { models: [...models, model], all: [...all, endpoint] });
    }
  const addresses = new Set([...known.keys(), ...reports.flatMap(({ nodes }) => nodes.map(({ address }) => address))]);
  return [...addresses].sort().map((address) => {
    const told = reports.flatMap(({ nodes }) => nodes.filter((node) => node.address === address));
    const flags = [...new Set(told.flatMap((node) => node.flags))];
    const { models, all } = known.get(address) ?? { models: [], all: [] };
    return {
      address,
      models,
      gateways: told.length,
      drained: drained.has(address),
      tokensPerSecond: history.nodeTokensPerSecond(address),
      flags: flags.map((flag) => ({ flag, gateways: told.filter((node) => node.flags.includes(flag)).length })),
      active: sum(told, ({ active }) => active),
      total: sum(told, ({ total }) => total),
      errors: sum(told, ({ errors }) => errors),
      deltas: sum(told, ({ deltas }) => deltas),
      ...loadOf(all),
    };
  });
}

/** Returns what a node says of itself, which is the same under each of its models: the highest, where they differ. */
function loadOf(all: readonly EndpointStatus[]): object {
  const [first] = all;
  if (!first) return {};
  const most = (of: (endpoint: EndpointStatus) => number) => Math.max(...all.map(of));
  return {
    zone: first.zone,
    priority: first.priority,
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
