import { toDuration } from "../../deploy/runtime/time/proto-duration.ts";
import { CountTokensRequest, type StreamPreferences } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Catalog } from "../catalog.ts";
import type { CanonicalRequest, FormatSettings, Places, PreparedCount } from "../formats/format.ts";
import { routingDigest } from "../keys/routing-digest.ts";
import { estimateInputTokens } from "../limits/input-estimate.ts";
import { promptRoute } from "../routes.ts";
import type { Sealing } from "../sealing/sealing.ts";
import { encodeRequest, type PromptFacts } from "../upstream/encoded-request.ts";
import type { PromptBound } from "../upstream/prompt-bound.ts";

/*
 * From a parsed body to the bytes that an engine gets. It is one function of plain data, so that it can be done on any
 * thread: what a body makes the gateway do depends on the body, and a big one is not translated where others are served.
 */

/** What translating looks at in the request that a body came with, and in the key of its caller. */
export type Caller = {
  /** The id of the request, which engines log. */
  readonly requestId: string;
  /** The tenant that the request belongs to. */
  readonly tenant: string;
  /** The key of the digests of the caller's prompts and sessions, of 32 bytes. */
  readonly routingKey: Uint8Array;
  /** The isolation domain of cached prefixes. */
  readonly cacheSalt: string;
  /** The most tokens of an answer that the key allows; undefined for no limit of its own. */
  readonly maxOutputTokens: number | undefined;
  /** The ids of the models that the caller can use now, which the refusal of an unknown one names. */
  readonly usableModels: readonly string[];
};

/** The order of a translation: what kind of body it is, and who sent it. */
export type TranslationOrder = {
  /** The operation of the route or the method that the body was sent to. */
  readonly operation: string;
  /** Who sent the body. */
  readonly caller: Caller;
  /** The size of the body in bytes, by which its tokens are estimated. */
  readonly bodyBytes: number;
  /** The time for which the engine may hold deltas of a stream to send several together, in milliseconds. Default: 0. */
  readonly joinMs?: number;
};

/**
 * The time for which the engine may hold deltas of an answer that is not streamed, in milliseconds. Nobody sees them
 * before its end, each message costs both sides, and what is lost with an engine is no more than this.
 */
const FOLDED_JOIN_MS = 200;

/** What translating needs from the rest of the gateway. */
export type Surroundings = {
  /** Opens the reasoning that callers send back. */
  readonly sealing: Sealing;
  /** Returns whether some engine of a model, by its catalog id, takes images. */
  readonly acceptsImages: (model: string) => boolean;
  /** Returns what bounds the prompts that the endpoints of a model take, by its catalog id; none where that is not known. */
  readonly promptBounds: (model: string) => readonly PromptBound[];
  /** The settings of the formats. */
  readonly settings: FormatSettings;
  /** The models of the service. */
  readonly catalog: Catalog;
};

/** A body that passed every check, as plain data: what goes to an engine, and what writing the answer needs. */
export type Translated = {
  /** The catalog id of the model. */
  readonly model: string;
  /** Whether the caller asked for an event stream; undefined where there is no such choice. */
  readonly stream: boolean | undefined;
  /** What the format needs for writing the answer; undefined where it writes none. */
  readonly options: object | undefined;
  /** The places in the body of what an engine may refuse. */
  readonly places: Places;
  /** The message for an engine, in the bytes of the contract; empty where none could take the prompt, as `facts` say. */
  readonly bytes: Uint8Array;
  /** What of a generation matters on its way; undefined for a count. */
  readonly facts: PromptFacts | undefined;
  /** The input tokens that the request is expected to have, at least 1. */
  readonly inputTokens: number;
  /** The most tokens of the answer; undefined where nobody sets a limit. */
  readonly maxOutputTokens: number | undefined;
};

/**
 * Checks a body and translates it: a parsed one of JSON, or the bytes of a message of the contract, as the operation has
 * it. Throws `ApiError` only, but for faults of this program.
 */
export function translate(body: unknown, order: TranslationOrder, surroundings: Surroundings): Translated {
  const { operation, caller, bodyBytes, joinMs = 0 } = order;
  const { sealing, acceptsImages, promptBounds, settings, catalog } = surroundings;
  const route = promptRoute(operation);
  if (!route) throw new Error(`${operation} takes no prompt`);
  const sealer = (model: string) => sealing.for({ tenant: caller.tenant, model, format: route.format.name });
  const context = { sealer, acceptsImages, settings, catalog, usableModels: caller.usableModels };
  if (route.use === "count") return countOf(route.format.prepare(body, context), order);
  const { model, stream, request: canonical, options, ...places } = route.format.prepare(body, context);
  const allowed = withinOutputLimit(canonical, caller.maxOutputTokens);
  const request = {
    // First what has a name: to a literal that begins with a spread, Node 20 adds each property in a microsecond.
    requestId: caller.requestId,
    ...allowed,
    tenant: caller.tenant,
    priority: 0,
    cache: cacheHints(caller, canonical.cache),
    stream: batching(stream ? joinMs : FOLDED_JOIN_MS),
    resumable: false,
    continuation: undefined,
    prefixDigests: Buffer.alloc(0),
  };
  const prefixKey = routingDigest(caller.routingKey, "prefix", model);
  const inputTokens = estimateInputTokens(bodyBytes, canonical.messages);
  const { maxOutputTokens } = allowed;
  const encoded = encodeRequest(request, prefixKey, promptBounds(model));
  return { model, stream, options, places, ...encoded, inputTokens, maxOutputTokens };
}

/** Asks the engine to hold deltas for at most so long; undefined where it is to hold none. */
function batching(ms: number): StreamPreferences | undefined {
  return ms === 0 ? undefined : { maxBatchDelay: toDuration(ms) };
}

function countOf({ model, request, ...places }: PreparedCount, { caller, bodyBytes }: TranslationOrder): Translated {
  return {
    ...{ model, places, stream: undefined, options: undefined, facts: undefined, maxOutputTokens: undefined },
    bytes: CountTokensRequest.encode({ ...request, tenant: caller.tenant }).finish(),
    inputTokens: estimateInputTokens(bodyBytes, request.messages),
  };
}

/**
 * Returns the cache hints that the engine gets: the caller's own cache key never leaves the gateway, and means nothing
 * beside another tenant's.
 */
function cacheHints({ routingKey, cacheSalt }: Caller, hints: CanonicalRequest["cache"]): CanonicalRequest["cache"] {
  const key = hints?.affinityKey ?? "";
  return {
    affinityKey: key === "" ? "" : routingDigest(routingKey, "affinity", key).toString("base64url"),
    isolationSalt: cacheSalt,
    ttl: hints?.ttl,
  };
}

/**
 * Returns the request with no more room for its answer than `most` tokens, which its key allows; the answer then ends
 * for length. That is no error, as agents always ask for tens of thousands of tokens and could not use the key at all.
 */
export function withinOutputLimit<T extends Pick<CanonicalRequest, "maxOutputTokens" | "reasoning">>(
  request: T,
  most: number | undefined,
): T {
  if (most === undefined || (request.maxOutputTokens ?? Number.POSITIVE_INFINITY) <= most) return request;
  const { reasoning } = request;
  if (reasoning?.budgetTokens === undefined) return { ...request, maxOutputTokens: most };
  // Some of the answer must be left to be seen.
  const budgetTokens = Math.max(1, Math.min(reasoning.budgetTokens, most - 1));
  return { ...request, maxOutputTokens: most, reasoning: { ...reasoning, budgetTokens } };
}
