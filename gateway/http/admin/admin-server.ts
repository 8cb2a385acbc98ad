import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { KeyStore } from "../../keys/key-store.ts";
import type { Limiter } from "../../limits/limiter.ts";
import type { OverloadManager } from "../../overload/overload-manager.ts";
import { registerForeignNames } from "../../stats/foreign-names.ts";
import type { Stats } from "../../stats/stats.ts";
import type { AdminReply, AdminRoute } from "./admin-route.ts";
import { clusterRoutes } from "./cluster-routes.ts";
import { keyRoutes } from "./key-routes.ts";
import { liveRoutes } from "./live-routes.ts";
import { isOwnOrigin } from "./own-origin.ts";
import { processRoutes } from "./process-routes.ts";
import { type ServerFacts, serverRoutes } from "./server-routes.ts";
import { stateRoutes } from "./state-routes.ts";
import { statsRoutes } from "./stats-routes.ts";
import { workersRoutes } from "./workers-routes.ts";

/** What the admin listener shows and changes, beside the facts about the server. */
export type AdminDeps = ServerFacts & {
  /** The statistics that are shown. */
  readonly stats: Stats;
  /** The keys that are in force. */
  readonly keys: KeyStore;
  /** Knows what keys have used of their limits. */
  readonly limiter: Limiter;
  /** Knows the resources of the process and what is done about them. */
  readonly overload: OverloadManager;
  /** Returns the number of connections of the public listener. */
  readonly connections: () => number;
};

/** The headers of every reply: nothing here is to be kept, guessed at or framed. */
const HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};

/**
 * Makes the admin listener: a server of its own on a port of its own, as it has to answer while the public one drains,
 * and must never be reachable by users. It reads no bodies and takes no keys: whoever reaches it may do everything
 * here.
 */
export function buildAdmin(deps: AdminDeps): FastifyInstance {
  const { stats, clusters, clock, lifecycle, connections, workers, keys, limiter, overload } = deps;
  // Here, where every metric that they show has been registered.
  registerForeignNames(stats.registry, deps.config.stats);
  const app = Fastify({ forceCloseConnections: true, bodyLimit: 1024, routerOptions: { maxParamLength: 300 } });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, payload, done) => {
    payload.resume();
    done(null);
  });
  const routes: AdminRoute[] = [
    ...liveRoutes({ clusters, live: stats.live, lifecycle, connections, workers, clock }),
    ...workersRoutes(workers),
    ...stateRoutes(lifecycle, clusters),
    ...statsRoutes(stats.registry),
    ...clusterRoutes(clusters, clock),
    ...serverRoutes(deps),
    ...processRoutes(deps, overload),
    ...keyRoutes(keys, limiter),
  ];
  routes.push({
    path: "/help",
    does: "reads",
    help: "this list",
    handle: () => ({ body: routes.map(helpLine).join("") }),
  });
  app.addHook("onRequest", async (request, reply) => {
    reply.headers(HEADERS);
    const { origin, host } = request.headers;
    if (request.method !== "GET" && request.method !== "HEAD" && !isOwnOrigin(origin, host))
      return answer(reply, { status: 403, body: "requests of other sites are refused\n" });
    return undefined;
  });
  for (const route of routes) serve(app, route, deps.log);
  app.setNotFoundHandler((_request, reply) => answer(reply, { status: 404, body: "no such path; see /help\n" }));
  app.setErrorHandler((_error, _request, reply) => answer(reply, { status: 500, body: "error\n" }));
  return app;
}

function serve(app: FastifyInstance, { path, does, handle }: AdminRoute, log: Logger): void {
  const run = async (request: FastifyRequest, reply: FastifyReply) => {
    const at = request.url.indexOf("?");
    const query = new URLSearchParams(at === -1 ? "" : request.url.slice(at + 1));
    return answer(reply, await handle({ query, params: request.params as Record<string, string> }));
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
    // Envoy's own answer.
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
