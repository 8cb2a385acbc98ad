import * as z from "zod";

/*
 * What a gateway tells the others about itself. Totals count from the start of its process, so that whoever reads two
 * reports takes differences. Names and numbers of ours only: nothing of a request.
 */

const count = z.number();

const cacheReasonReport = z.object({
  /** Why not more of prompts was in caches; `hit` where nothing needs explaining. */
  reason: z.string().max(64),
  /** The number of requests of which it was the reason. */
  requests: count,
  /** The tokens of their prompts that might have been in the cache and were not. */
  lostTokens: count,
});

const modelReport = z.object({
  /** The catalog id of the model. */
  model: z.string(),
  /** The number of answers that are under way. */
  active: count,
  /** The number of requests that wait at the gateway for an endpoint. */
  queued: count,
  /** The number of requests that are over. */
  requests: count,
  /** The number of requests that failed for a reason of the service. */
  errors: count,
  /** The number of deltas that engines sent, which stand for tokens. */
  deltas: count,
  /** The number of first tokens by the time until them: each below the bound of its place in `FIRST_TOKEN_BOUNDS_MS`. */
  firstTokens: z.array(count).max(64),
  /** The tokens of prompts of which an engine told what was in its cache. */
  promptTokens: count,
  /** The tokens of these prompts that were expected in caches. */
  expectedTokens: count,
  /** The tokens of these prompts that were in caches. */
  cachedTokens: count,
  /** The reasons for what was not in caches, as far as there were any; none from a gateway that does not tell. */
  cacheReasons: z.array(cacheReasonReport).max(64).default([]),
});

const nodeReport = z.object({
  /** The address of the node, host and port. */
  address: z.string(),
  /** Why the gateway sends it no requests for some model, in Envoy's words; empty where it does. */
  flags: z.array(z.string()),
  /** The number of calls of the gateway that are open there. */
  active: count,
  /** The number of calls of the gateway so far. */
  total: count,
  /** The number of these calls that failed. */
  errors: count,
  /** The number of deltas that the gateway got from it. */
  deltas: count,
});

/** The schema of a report. Fields that it does not name are left out, as gateways of two versions may share a store. */
export const gatewayReportSchema = z.object({
  /** The id of the gateway process, made when it starts. */
  id: z.string().max(64),
  /** The name of the machine that it runs on. */
  host: z.string().max(256),
  /** The number of the worker among those on its port, from 1. */
  worker: count,
  /** The state of the gateway in Envoy's words. */
  state: z.string(),
  /** The time since its start, in milliseconds. */
  uptimeMs: count,
  /** The number of connections of its public listener. */
  connections: count,
  /** The memory that it holds, in bytes. */
  rssBytes: count,
  /** The time for which it used a processor, in milliseconds. */
  cpuMs: count,
  /** The time for which its event loop had work, in milliseconds. */
  loopActiveMs: count,
  /** The models that it serves. */
  models: z.array(modelReport),
  /** The nodes that it knows. */
  nodes: z.array(nodeReport),
});

/** What a gateway tells the others about itself. */
export type GatewayReport = Readonly<z.output<typeof gatewayReportSchema>>;

/** A report, and how long ago it was made, in milliseconds. */
export type SeenReport = { readonly report: GatewayReport; readonly ageMs: number };
