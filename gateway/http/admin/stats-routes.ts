import { Counter, Histogram, type Registry } from "prom-client";
import { PAGE_HEADERS, pageFiles } from "../page/page-files.ts";
import {
  type AdminReply,
  type AdminRequest,
  type AdminRoute,
  badRequest,
  changes,
  jsonReply,
  OK,
  reads,
} from "./admin-route.ts";
import type { FleetView } from "./fleet-view.ts";

/** Words separated by `|`: a regular expression, as Envoy accepts, could be made to run forever. */
const FILTER = /^[\w:.|-]{1,200}$/;
const FORMATS: readonly (string | null)[] = [null, "prometheus", "json"];

/** Makes the path that Prometheus scrapes by default. */
export function metricsRoute(registry: Registry): AdminRoute {
  return reads("/metrics", "all measurements", () => asText(registry, namesOf(registry)));
}

export function statsRoutes(registry: Registry): readonly AdminRoute[] {
  return [
    metricsRoute(registry),
    reads("/stats", "measurements for Prometheus; ?format=json, ?filter=rq_total|outlier, ?usedonly", (request) =>
      measurements(registry, request),
    ),
    reads("/stats/prometheus", "the same; ?filter=, ?usedonly", ({ query }) => {
      query.delete("format");
      return measurements(registry, { query });
    }),
    changes("/reset_counters", "counters and histograms to zero; gauges stay", () => {
      for (const name of namesOf(registry)) {
        const metric = registry.getSingleMetric(name);
        if (metric instanceof Counter || metric instanceof Histogram) metric.reset();
      }
      return OK;
    }),
  ];
}

async function measurements(registry: Registry, { query }: Pick<AdminRequest, "query">): Promise<AdminReply> {
  const format = query.get("format");
  if (!FORMATS.includes(format)) return badRequest("format: expected prometheus or json");
  const filter = query.get("filter");
  if (filter !== null && !FILTER.test(filter)) return badRequest("filter: expected words with | between them");
  const words = filter?.split("|").filter((word) => word !== "");
  const named = (name: string) => words === undefined || words.some((word) => name.includes(word));
  if (format !== "json" && !query.has("usedonly")) return asText(registry, namesOf(registry).filter(named));
  const families = (await registry.getMetricsAsJSON()).filter(({ name }) => named(name));
  // Used: ever counted, or not zero now.
  const shown = query.has("usedonly")
    ? families.filter(({ values }) => values.some(({ value }) => value !== 0))
    : families;
  if (format === "json") return jsonReply({ stats: shown });
  return asText(
    registry,
    shown.map(({ name }) => name),
  );
}

function namesOf(registry: Registry): readonly string[] {
  return registry.getMetricsAsArray().map(({ name }) => name);
}

async function asText(registry: Registry, names: readonly string[]): Promise<AdminReply> {
  const texts = await Promise.all(names.map((name) => registry.getSingleMetricAsString(name)));
  return { type: registry.contentType, body: texts.map((text) => `${text}\n\n`).join("") };
}

const PAGE_FOLDER = "gateway/http/admin/page";
const PAGE_FILES = ["page.html", "page.css", "page.js", "keys.js", "nodes.js", "table.js"];

/** Makes the admin page, and `/fleet`, which the page polls. */
export function fleetRoutes(fleet: FleetView): readonly AdminRoute[] {
  const files = new Map(pageFiles(PAGE_FOLDER, PAGE_FILES).map((file) => [file.name, file]));
  const page = (name = ""): AdminReply => {
    const file = files.get(name);
    return file ? { ...file, headers: PAGE_HEADERS } : { status: 404, body: "no such file\n" };
  };
  return [
    reads("/", "this gateway, live, for a browser", () => page("page.html")),
    reads("/page/:name", "the files of the page", ({ params }) => page(params.name)),
    reads("/fleet", "models and nodes of this gateway, as the page shows them", async () => {
      const view = await fleet.view();
      return { type: "application/json; charset=utf-8", body: JSON.stringify(view, rounded) };
    }),
  ];
}

/** Returns numbers rounded to thousandths, which is enough for the page. */
function rounded(_name: string, value: unknown): unknown {
  return typeof value === "number" ? Math.round(value * 1000) / 1000 : value;
}
