import * as z from "zod";

/*
 * What a gateway tells the others about itself. Totals count from the start of its process, so that whoever reads two
 * reports takes differences. Names and numbers of ours only: nothing of a request, and of its caller no more than keyed
 * digests of sessions and conversations.
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

const sessionReport = z.object({
  /** The keyed digest of the session, which all gateways make alike. */
  session: z.string().max(64),
  /** The seconds of prefill and answers that the gateway served it; what was earlier counts less. */
  served: count,
  /** The seconds for which the session wanted to be served there, counted alike. */
  wanted: count,
});

const conversationReport = z.object({
  /** The name of the conversation: keyed digests, which all gateways make alike. */
  conversation: z.string().max(128),
  /** The address of the node that had its last turn, host and port. */
  address: z.string().max(512),
  /** The number of tokens that it takes up there. */
  tokens: count,
  /** The time since that turn was sent, in milliseconds. */
  ageMs: count,
});

const turnReport = z.object({
  /** The seconds of prefill and answers that the gateway served of all sessions; what was earlier counts less. */
  served: count,
  /** The seconds for which all sessions wanted to be served there, counted alike. */
  wanted: count,
  /** The seconds until the first turn is due that waits there for its prefill; null where none does. */
  dueSeconds: count.nullable(),
  /** The sessions that the gateway served of late. */
  sessions: z.array(sessionReport).max(1_024).readonly(),
  /** Where the conversations are that the gateway placed of late; none from one that does not tell. */
  conversations: z.array(conversationReport).max(1_024).readonly().default([]),
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
  /** What the gateways have to know of each other to be fair to sessions; nothing from one that does not tell. */
  turns: turnReport.optional(),
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
  /** The requests that were over before their model was known; none from a gateway that does not report them. */
  withoutModel: z.object({ requests: count, errors: count }).default({ requests: 0, errors: 0 }),
  /** The nodes that it knows. */
  nodes: z.array(nodeReport),
});

/** What a gateway tells the others about itself. */
export type GatewayReport = Readonly<z.output<typeof gatewayReportSchema>>;

/** A report, and how long ago it was made, in milliseconds. */
export type SeenReport = { readonly report: GatewayReport; readonly ageMs: number };
