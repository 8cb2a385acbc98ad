import { toDuration } from "../../deploy/runtime/time/clock.ts";
import { CountTokensRequest, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Catalog } from "../catalog.ts";
import { previousNotFound } from "../formats/field-error.ts";
import { reasoningBudget } from "../formats/fields.ts";
import type { CanonicalRequest, FormatSettings, ItemState, Places, PreparedCount, Sealer } from "../formats/format.ts";
import { routingDigest } from "../keys/principal.ts";
import { estimateInputTokens } from "../limits/input-estimate.ts";
import { PROMPT_ROUTES } from "../routes.ts";
import type { Sealing } from "../sealing/sealing.ts";
import {
  type EncodedAfter,
  type EncodedBefore,
  encodedBefore,
  encodeRequest,
  type InsertedMessages,
  type PromptFacts,
} from "../upstream/request/encoded-request.ts";
import type { PromptBound } from "../upstream/request/prompt-bound.ts";

/* From a parsed body to the bytes for an engine: a function of plain data, so that it can run on any thread. */

export type Caller = {
  readonly requestId: string;
  readonly tenant: string;
  /** Key of the digests of the caller's prompts and sessions, 32 bytes. */
  readonly routingKey: Uint8Array;
  /** Isolation domain of cached prefixes. */
  readonly cacheSalt: string;
  /** The most tokens of an answer that the key allows. */
  readonly maxOutputTokens: number | undefined;
  readonly usableModels: readonly string[];
  readonly loadTests: boolean;
  /** By the caller's headers; 0 or below. */
  readonly priority: number;
};

export type TranslationOrder = {
  readonly operation: string;
  readonly caller: Caller;
  readonly bodyBytes: number;
  /** What the request continues; absent for a whole conversation. */
  readonly before?: ConversationBefore | undefined;
  /** Whether all of a large conversation before may be digested here. Default: true. */
  readonly mayDigest?: boolean | undefined;
};

/** What a request leaves for one that continues it: plain data, besides `prompt`. */
type ConversationState = {
  readonly model: string;
  readonly items: ItemState;
  /** Expected of the messages alone. */
  readonly inputTokens: number;
  /** Sealed parts of the messages that did not open. */
  readonly unopened: number;
};

/** A conversation, behind which a request brings new items only. */
export type ConversationBefore = ConversationState & { readonly prompt: EncodedBefore };

/** The same, before its messages are cut out of the bytes of its request. */
export type ConversationAfter = ConversationState & { readonly prompt: EncodedAfter };

/**
 * Milliseconds for which the engine may hold deltas of an unstreamed answer. The caller sees none before the end, each
 * message costs CPU on both sides, and a lost engine loses no more than this.
 */
const FOLDED_JOIN_MS = 200;

const NO_BYTES = Buffer.alloc(0);

export type Surroundings = {
  readonly sealing: Sealing;
  readonly acceptsImages: (model: string) => boolean;
  /** The prompt limits of a model's endpoints; empty if they are unknown. */
  readonly promptBounds: (model: string) => readonly PromptBound[];
  readonly settings: FormatSettings;
  readonly catalog: Catalog;
};

export type Translated = {
  /** Catalog id. */
  readonly model: string;
  /** Undefined if the operation has no such choice. */
  readonly stream: boolean | undefined;
  /** The format's options for writing the answer. */
  readonly options: object | undefined;
  readonly places: Places;
  /** The message for an engine; empty if no engine can take the prompt according to `facts`. */
  readonly bytes: Uint8Array;
  /** The part of it that is not in `bytes`. */
  readonly inserted?: InsertedMessages | undefined;
  /** For a request that continues this one; absent where none can. */
  readonly after?: ConversationAfter | undefined;
  /** Facts of a generation for routing; undefined for a count. */
  readonly facts: PromptFacts | undefined;
  /** Expected, at least 1. */
  readonly inputTokens: number;
  readonly maxOutputTokens: number | undefined;
  /** The contract's priority, by what the caller says of the request; 0 or below. */
  readonly priority: number;
  /** Sealed parts of the conversation that did not open, whose reasoning the engine does not get. */
  readonly unopened: number;
};

/** Translates parsed JSON, or the bytes of a message of the contract. Throws only `ApiError`, except for bugs. */
export function translate(body: unknown, order: TranslationOrder, surroundings: Surroundings): Translated {
  const { operation, caller, bodyBytes, before, mayDigest } = order;
  const { sealing, acceptsImages, promptBounds, settings, catalog } = surroundings;
  const route = PROMPT_ROUTES.get(operation);
  if (!route) throw new Error(`${operation} takes no prompt`);
  let unopened = before?.unopened ?? 0;
  const onUnopened = () => {
    unopened += 1;
  };
  const context = {
    ...{ acceptsImages, settings, catalog },
    sealer: (model: string) =>
      watched(sealing.for({ tenant: caller.tenant, model, format: route.format.name }), onUnopened),
    ...{ usableModels: caller.usableModels, loadTests: caller.loadTests },
    before: before?.items,
  };
  if (route.use === "count") return countOf(route.format.prepare(body, context), order);
  const {
    model,
    stream,
    request: canonical,
    options,
    priority: said = 0,
    lead,
    after,
    ...places
  } = route.format.prepare(body, context);
  // Its reasoning was sealed for the other model.
  if (before && before.model !== model) throw previousNotFound();
  const priority = Math.min(caller.priority, said);
  const request = engineRequest(canonical, caller, { priority, stream });
  const prefixKey = prefixKeyOf(caller.routingKey, model);
  const inputTokens = (before?.inputTokens ?? 0) + estimateInputTokens(bodyBytes, canonical.messages);
  const encoded = encodeRequest(request, prefixKey, promptBounds(model), {
    ...{ lead, before: before?.prompt, mayDigest },
    after: after && { open: Number(after.turn.length > 0), shown: after.shown },
  });
  const facts = { ...encoded.facts, lacksReasoning: unopened > 0 };
  const prompt = encoded.after;
  const own = prompt && estimateInputTokens(prompt.to - prompt.from, canonical.messages);
  const state = { model, unopened, inputTokens: (before?.inputTokens ?? 0) + (own ?? 0) };
  return {
    model,
    stream,
    options,
    places,
    bytes: encoded.bytes,
    inserted: encoded.inserted,
    facts,
    after: after && prompt && { ...state, items: after, prompt },
    inputTokens,
    maxOutputTokens: request.maxOutputTokens,
    priority,
    unopened,
  };
}

/** Returns the sealer; `onUnopened` is called for each text that it cannot open. */
function watched(sealer: Sealer, onUnopened: () => void): Sealer {
  const open: Sealer["open"] = (sealed, kind) => {
    const text = sealer.open(sealed, kind);
    if (text === undefined) onUnopened();
    return text;
  };
  return { ...sealer, open };
}

function engineRequest(
  canonical: CanonicalRequest,
  caller: Caller,
  { priority, stream }: Pick<GenerateRequest, "priority"> & { readonly stream: boolean },
): GenerateRequest {
  return {
    // Named properties first: in a literal that begins with a spread, Node 20 adds each property in a microsecond.
    requestId: caller.requestId,
    ...withinOutputLimit(canonical, caller.maxOutputTokens),
    tenant: caller.tenant,
    priority,
    cache: cacheHints(caller, canonical.cache),
    stream: stream ? undefined : { maxBatchDelay: toDuration(FOLDED_JOIN_MS) },
    resumable: false,
    continuation: undefined,
    prefixDigests: NO_BYTES,
    baseDigest: NO_BYTES,
    makeHandOver: false,
    handOver: NO_BYTES,
    handOverLeft: undefined,
    lease: false,
  };
}

/** Returns the key of the digests of a caller's prompts for a model, 32 bytes. */
export function prefixKeyOf(routingKey: Uint8Array, model: string): Uint8Array {
  return routingDigest(routingKey, "prefix", model);
}

function countOf({ model, request, ...places }: PreparedCount, { caller, bodyBytes }: TranslationOrder): Translated {
  return {
    ...{ model, places, stream: undefined, options: undefined, facts: undefined, maxOutputTokens: undefined },
    ...{ priority: caller.priority, unopened: 0 },
    bytes: CountTokensRequest.encode({
      ...request,
      tenant: caller.tenant,
      cache: cacheHints(caller, undefined),
    }).finish(),
    inputTokens: estimateInputTokens(bodyBytes, request.messages),
  };
}

/** Returns what a request that continues a translated one needs; undefined where none can. */
export function conversationBehind({ bytes, inserted, facts, after }: Translated): ConversationBefore | undefined {
  if (!facts || !after) return undefined;
  return { ...after, prompt: encodedBefore({ bytes, inserted, facts }, after.prompt) };
}

/** The caller's own cache key never leaves the gateway: it is digested per tenant. */
function cacheHints({ routingKey, cacheSalt }: Caller, hints: CanonicalRequest["cache"]): CanonicalRequest["cache"] {
  const key = hints?.affinityKey ?? "";
  return {
    affinityKey: key === "" ? "" : routingDigest(routingKey, "affinity", key).toString("base64url"),
    isolationSalt: cacheSalt,
    ttl: hints?.ttl,
  };
}

/**
 * Returns the request with at most `most` output tokens, as its key allows; the answer then ends for length. A higher
 * request is no error, because agents always ask for tens of thousands of tokens and could not use the key at all.
 */
export function withinOutputLimit<T extends Pick<GenerateRequest, "maxOutputTokens" | "reasoning">>(
  request: T,
  most: number | undefined,
): T {
  if (most === undefined || (request.maxOutputTokens ?? Number.POSITIVE_INFINITY) <= most) return request;
  const { reasoning } = request;
  if (reasoning?.budgetTokens === undefined) return { ...request, maxOutputTokens: most };
  const budgetTokens = reasoningBudget(reasoning.budgetTokens, most);
  return { ...request, maxOutputTokens: most, reasoning: { ...reasoning, budgetTokens } };
}
