import type { RequestListener } from "node:http";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, type RawServerDefault } from "fastify";
import type { Logger } from "pino";
import type { KeyStore } from "../../keys/key-store.ts";
import type { Limiter } from "../../limits/limiter.ts";
import type { Stats } from "../../stats/stats.ts";
import type { EndpointOrders } from "../../upstream/endpoint-orders.ts";
import type { KeyUsage } from "../../usage/key-usage.ts";
import { type AdminProof, type AdminTls, refusal } from "./admin-access.ts";
import { type AdminReply, type AdminRoute, reads } from "./admin-route.ts";
import { clusterRoutes } from "./cluster-routes.ts";
import { type EngineOwner, killRoute } from "./engine-owner.ts";
import type { FleetView } from "./fleet-view.ts";
import { keyRoutes } from "./key-routes.ts";
import { healthRoutes, type ServerFacts, serverRoutes, stateRoutes } from "./server-routes.ts";
import { fleetRoutes, metricsRoute, statsRoutes } from "./stats-routes.ts";

/** The objects that the admin listener shows and changes, beside the facts about the server. */
export type AdminDeps = ServerFacts & {
  readonly stats: Stats;
  readonly keys: KeyStore;
  readonly orders: EndpointOrders;
  readonly limiter: Limiter;
  readonly fleet: FleetView;
  readonly usage: Pick<KeyUsage, "read" | "today">;
  readonly owner: EngineOwner;
  /** The accepted proofs of callers on other machines. Default: none. */
  readonly proof?: AdminProof;
  /** Absent for plain text. */
  readonly tls?: AdminTls | undefined;
};

/** The headers of every reply: no caching, no sniffing, no framing. */
const HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};

/**
 * Makes the admin listener: a server of its own on a port of its own, as it has to answer while the public one drains,
 * and must never be reachable by users. It reads no bodies and accepts no keys of callers: a caller that `refusal`
 * accepts has full control.
 */
export function buildAdmin(deps: AdminDeps): FastifyInstance {
  const { stats, clusters, orders, clock, lifecycle, keys, limiter, usage, fleet, proof = {}, tls } = deps;
  const app = newListener(tls);
  const health = healthRoutes(deps);
  const routes: AdminRoute[] = [
    ...fleetRoutes(fleet),
    ...health,
    ...stateRoutes(lifecycle),
    ...statsRoutes(stats.registry),
    ...clusterRoutes(clusters, orders, clock),
    killRoute(deps.owner),
    ...serverRoutes(deps),
    ...keyRoutes(keys, limiter, usage),
  ];
  routes.push(reads("/help", "this list", () => ({ body: routes.map(helpLine).join("") })));
  const open = new Set(health.map(({ path }) => path));
  app.addHook("onRequest", async (request, reply) => {
    if (request.method !== "POST" && open.has(request.routeOptions.url ?? "")) return undefined;
    const refused = refusal(request.raw, proof);
    return refused && answer(reply, refused);
  });
  for (const route of routes) serve(app, route, deps.log);
  return app;
}

/** Makes the listener that serves health and metrics without proof, and nothing else. */
export function buildHealth(deps: AdminDeps): FastifyInstance {
  const app = newListener();
  for (const route of [...healthRoutes(deps), metricsRoute(deps.stats.registry)]) serve(app, route, deps.log);
  return app;
}

/** Makes a listener without paths, which reads no bodies and does not expose its errors. */
function newListener(tls?: AdminTls): FastifyInstance {
  const serverFactory = tls && ((handler: RequestListener) => tls.server(handler));
  const app = Fastify<RawServerDefault>({
    forceCloseConnections: true,
    bodyLimit: 1024,
    routerOptions: { maxParamLength: 300 },
    ...(serverFactory && { serverFactory }),
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, payload, done) => {
    payload.resume();
    done(null);
  });
  app.addHook("onRequest", async (_request, reply) => void reply.headers(HEADERS));
  app.setNotFoundHandler((_request, reply) => answer(reply, { status: 404, body: "no such path; see /help\n" }));
  app.setErrorHandler((_error, _request, reply) => answer(reply, { status: 500, body: "error\n" }));
  return app;
}

function serve(app: FastifyInstance, { path, does, handle }: AdminRoute, log: Logger): void {
  const run = async (request: FastifyRequest, reply: FastifyReply) => {
    const at = request.url.indexOf("?");
    const query = new URLSearchParams(at === -1 ? "" : request.url.slice(at + 1));
    return answer(reply, await handle({ query, params: request.params as Record<string, string>, from: request.ip }));
  };
  if (does === "reads") {
    app.get(path, run);
    app.post(path, (_request, reply) =>
      answer(reply, { status: 405, headers: { allow: "GET, HEAD" }, body: "this path only reads: use GET\n" }),
    );
  } else {
    app.post(path, async (request, reply) => {
      await run(request, reply);
      log.info({ path: request.url, from: request.ip, code: reply.statusCode }, "admin change");
      return reply;
    });
    // Envoy's reply.
    app.get(path, (_request, reply) => answer(reply, { status: 400, body: "this path changes something: use POST\n" }));
  }
}

function answer(reply: FastifyReply, { status = 200, type, headers = {}, body, afterwards }: AdminReply): FastifyReply {
  if (afterwards) reply.raw.once("close", afterwards);
  return reply
    .code(status)
    .headers(headers)
    .type(type ?? "text/plain; charset=utf-8")
    .send(body);
}

function helpLine({ path, does, help }: AdminRoute): string {
  return `${does === "changes" ? "POST" : "GET "} ${path.replace(/:(\w+)/g, "{$1}")}: ${help}\n`;
}
