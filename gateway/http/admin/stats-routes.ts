import { Counter, Histogram, type MetricObjectWithValues, type MetricValue, type Registry } from "prom-client";
import { PAGE_HEADERS, pageFiles } from "../page-files.ts";
import { type AdminReply, type AdminRequest, type AdminRoute, badRequest, jsonReply, OK } from "./admin-route.ts";
import { type FleetParts, fleetView } from "./fleet/fleet-view.ts";

/**
 * The form of a filter: words separated by `|`. Envoy accepts a regular expression; here one could be made to run
 * forever.
 */
const FILTER = /^[\w:.|-]{1,200}$/;
const FORMATS: readonly (string | null)[] = [null, "prometheus", "json"];

/** Makes the path that Prometheus scrapes by default. */
export function metricsRoute(registry: Registry): AdminRoute {
  const names = () => registry.getMetricsAsArray().map(({ name }) => name);
  return { path: "/metrics", does: "reads", help: "all measurements", handle: () => asText(registry, names()) };
}

export function statsRoutes(registry: Registry): readonly AdminRoute[] {
  return [
    metricsRoute(registry),
    {
      path: "/stats",
      does: "reads",
      help: "measurements for Prometheus; ?format=json, ?filter=rq_total|outlier, ?usedonly",
      handle: (request) => measurements(registry, request),
    },
    {
      path: "/stats/prometheus",
      does: "reads",
      help: "the same; ?filter=, ?usedonly",
      handle: ({ query, params }) => {
        query.delete("format");
        return measurements(registry, { query, params });
      },
    },
    {
      path: "/reset_counters",
      does: "changes",
      help: "counters and histograms to zero; gauges stay",
      handle() {
        for (const { name } of registry.getMetricsAsArray()) {
          const metric = registry.getSingleMetric(name);
          if (metric instanceof Counter || metric instanceof Histogram) metric.reset();
        }
        return OK;
      },
    },
  ];
}

async function measurements(registry: Registry, { query }: AdminRequest): Promise<AdminReply> {
  const format = query.get("format");
  if (!FORMATS.includes(format)) return badRequest("format: expected prometheus or json");
  const filter = query.get("filter");
  if (filter !== null && !FILTER.test(filter)) return badRequest("filter: expected words with | between them");
  const words = filter?.split("|").filter((word) => word !== "");
  const named = (name: string) => words === undefined || words.some((word) => name.includes(word));
  if (format !== "json" && !query.has("usedonly")) {
    const names = registry.getMetricsAsArray().map(({ name }) => name);
    return asText(registry, names.filter(named));
  }
  const families = (await registry.getMetricsAsJSON()).filter(({ name }) => named(name));
  const shown = query.has("usedonly") ? families.filter(isUsed) : families;
  if (format === "json") return jsonReply({ stats: shown });
  return asText(
    registry,
    shown.map(({ name }) => name),
  );
}

/** Returns whether a metric of the family was ever counted, or is not zero now. */
function isUsed({ values }: MetricObjectWithValues<MetricValue<string>>): boolean {
  return values.some(({ value }) => value !== 0);
}

async function asText(registry: Registry, names: readonly string[]): Promise<AdminReply> {
  const texts = await Promise.all(names.map((name) => registry.getSingleMetricAsString(name)));
  return { type: registry.contentType, body: texts.map((text) => `${text}\n\n`).join("") };
}

const PAGE_FOLDER = "gateway/http/admin/page";
const PAGE_FILES = ["page.html", "page.css", "page.js", "charts.js", "dom.js", "keys.js", "nodes.js"];

/** Makes the admin page, and `/fleet`, which the page polls. */
export function fleetRoutes(parts: FleetParts): readonly AdminRoute[] {
  const files = new Map(pageFiles(PAGE_FOLDER, PAGE_FILES).map((file) => [file.name, file]));
  const page = (name = ""): AdminReply => {
    const file = files.get(name);
    return file ? { ...file, headers: PAGE_HEADERS } : { status: 404, body: "no such file\n" };
  };
  const startedMs = parts.clock.nowMs();
  return [
    {
      path: "/",
      does: "reads",
      help: "this gateway, live, for a browser",
      handle: () => page("page.html"),
    },
    { path: "/page/:name", does: "reads", help: "the files of the page", handle: ({ params }) => page(params.name) },
    {
      path: "/fleet",
      does: "reads",
      help: "models and nodes of this gateway, and charts of the last hour, as the page shows them; ?model=: its charts alone; ?since=, in ms since the epoch: newer points only",
      handle({ query }) {
        const sinceMs = Number(query.get("since") ?? 0);
        if (!Number.isFinite(sinceMs)) return badRequest("since: expected milliseconds since the epoch");
        const uptimeMs = parts.clock.nowMs() - startedMs;
        const view = { uptimeMs, ...fleetView(parts, { model: query.get("model") ?? "", sinceMs }) };
        return { type: "application/json; charset=utf-8", body: JSON.stringify(view, rounded) };
      },
    },
  ];
}

/** Returns numbers rounded to thousandths, which is enough for a chart. */
function rounded(_name: string, value: unknown): unknown {
  return typeof value === "number" ? Math.round(value * 1000) / 1000 : value;
}
