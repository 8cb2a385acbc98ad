import { hostname } from "node:os";
import { performance } from "node:perf_hooks";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Fleet } from "../../fleet/fleet.ts";
import type { Lifecycle } from "../../lifecycle.ts";
import type { LiveTotals } from "../../stats/live-totals.ts";
import type { ClusterManager } from "../../upstream/cluster-manager.ts";
import type { Workers } from "../../workers.ts";
import { PAGE_HEADERS, pageFiles } from "../page-files.ts";
import { type AdminReply, type AdminRoute, badRequest } from "./admin-route.ts";
import { clusterStatuses } from "./fleet/cluster-status.ts";
import { fleetView } from "./fleet/fleet-view.ts";

const PAGE_FOLDER = "gateway/http/admin/page";
const PAGE_FILES = ["page.html", "page.css", "page.js", "charts.js", "dom.js", "keys.js", "nodes.js"];

const SHARES = [0.5, 0.95];

/** What the page for people takes its figures from. */
export type LiveFacts = {
  /** The clusters, whose endpoints the page shows. */
  readonly clusters: ClusterManager;
  /** The totals of requests and deltas, by model and by endpoint. */
  readonly live: LiveTotals;
  /** The lifecycle of the gateway, which names its state. */
  readonly lifecycle: Lifecycle;
  /** Returns the number of connections of the public listener. */
  readonly connections: () => number;
  /** The workers that share the public port; the page adds up their figures. */
  readonly workers: Workers;
  /** Follows all gateways that belong together. */
  readonly fleet: Fleet;
  /** The clock by which the last minute is measured. */
  readonly clock: Clock;
};

/**
 * Makes the page for people, and what it polls: totals, of which it takes differences, and the last minute's
 * percentiles.
 */
export function liveRoutes(facts: LiveFacts): readonly AdminRoute[] {
  const files = new Map(pageFiles(PAGE_FOLDER, PAGE_FILES).map((file) => [file.name, file]));
  const page = (name = ""): AdminReply => {
    const file = files.get(name);
    return file ? { ...file, headers: PAGE_HEADERS } : { status: 404, body: "no such file\n" };
  };
  const startedMs = facts.clock.nowMs();
  return [
    {
      path: "/",
      does: "reads",
      help: "all gateways, live, for a browser",
      handle: () => page("page.html"),
    },
    { path: "/page/:name", does: "reads", help: "the files of the page", handle: ({ params }) => page(params.name) },
    {
      path: "/fleet",
      does: "reads",
      help: "all gateways, models and nodes, and charts of the last hour, as the page shows them; ?model=: its charts alone; ?since=, in ms since the epoch: newer points only",
      handle({ query }) {
        const sinceMs = Number(query.get("since") ?? 0);
        if (!Number.isFinite(sinceMs)) return badRequest("since: expected milliseconds since the epoch");
        const statuses = clusterStatuses(facts.clusters, facts.clock.nowMs());
        const wanted = { model: query.get("model") ?? "", sinceMs };
        const view = fleetView(facts.fleet, { statuses, drained: facts.clusters.drained }, hostname(), wanted);
        return { type: "application/json; charset=utf-8", body: JSON.stringify(view, rounded) };
      },
    },
    {
      path: "/live",
      does: "reads",
      help: "this process alone, as JSON",
      handle: () => ({
        type: "application/json; charset=utf-8",
        body: JSON.stringify(snapshot(facts, startedMs), rounded),
      }),
    },
  ];
}

/** Returns what the page polls. Times are in milliseconds; `atMs` is monotonic. What is not known is left out. */
function snapshot({ clusters, live, lifecycle, connections, workers, clock }: LiveFacts, startedMs: number) {
  const nowMs = clock.nowMs();
  live.keepEndpoints(new Set(clusters.endpoints.map(({ address }) => address)));
  const { active, idle } = performance.eventLoopUtilization();
  const [p50, p95] = live.firstTokens.percentiles(SHARES, nowMs);
  return {
    atMs: Math.round(nowMs),
    uptimeMs: Math.round(nowMs - startedMs),
    state: lifecycle.state(clusters.ready),
    worker: { index: workers.index, count: workers.count },
    connections: connections(),
    rssBytes: process.memoryUsage.rss(),
    loop: { active: Math.round(active), idle: Math.round(idle) },
    p50,
    p95,
    withoutModel: live.withoutModel,
    clusters: clusterStatuses(clusters, nowMs).map(({ model, lbPolicy, endpoints }) => {
      const totals = live.model(model);
      const [modelP50, modelP95] = totals.firstTokens.percentiles(SHARES, nowMs);
      return {
        model,
        lbPolicy,
        active: totals.active,
        requests: totals.requests,
        errors: totals.errors,
        deltas: totals.deltas,
        cacheReasons: Object.fromEntries(totals.cacheReasons),
        p50: modelP50,
        p95: modelP95,
        endpoints: endpoints.map((endpoint) => ({ ...endpoint, deltas: live.endpoint(endpoint.address).deltas })),
      };
    }),
  };
}

/** Returns numbers rounded to thousandths: more than anybody can see. */
function rounded(_name: string, value: unknown): unknown {
  return typeof value === "number" ? Math.round(value * 1000) / 1000 : value;
}
