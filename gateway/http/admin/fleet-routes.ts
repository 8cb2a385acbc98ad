import { PAGE_HEADERS, pageFiles } from "../page-files.ts";
import { type AdminReply, type AdminRoute, badRequest } from "./admin-route.ts";
import { type FleetParts, fleetView } from "./fleet/fleet-view.ts";

const PAGE_FOLDER = "gateway/http/admin/page";
const PAGE_FILES = ["page.html", "page.css", "page.js", "charts.js", "dom.js", "keys.js", "nodes.js"];

/** Makes the page for people, and `/fleet`, which the page polls. */
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

/** Returns numbers rounded to thousandths: more than anybody can see. */
function rounded(_name: string, value: unknown): unknown {
  return typeof value === "number" ? Math.round(value * 1000) / 1000 : value;
}
