import { hash } from "node:crypto";
import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import { durationMs, toDuration } from "../../../deploy/runtime/time/clock.ts";
import { type Continuation, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Tool, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import {
  type Boundary,
  DIGEST_BYTES,
  extendedShape,
  type PromptShape,
  promptShape,
} from "../load-balancing/boundary-hashes.ts";
import { type Beyond, beyondBounds, type PromptBound, userTextBytes } from "./prompt-bound.ts";

const MESSAGES_TAG = (3 << 3) | 2;
const TOOLS_TAG = (4 << 3) | 2;
const RESUMABLE_TAG = 14 << 3;
/** The size of that field in bytes: one each for tag and value. */
const RESUMABLE_BYTES = 2;

/**
 * The size of the largest message whose buffer is kept for the next one, in bytes. Growing a new buffer costs as much
 * as encoding, and each message is copied out of it; concurrently translated messages are no larger.
 */
const KEPT_BYTES = 256 * 1024;

let writer = new BinaryWriter();

const MAX_DIGESTS = 64;
/** The digests of the beginning of a prompt among them, which other conversations share. */
const HEAD_DIGESTS = 2;
const NO_SHAPE: PromptShape = { boundaries: [], lastTurn: undefined };

/** Consecutive messages in the bytes of a request. */
export type EncodedMessages = { readonly bytes: Uint8Array; readonly count: number };

/** Messages of earlier requests, with what another request needs to be encoded and digested behind them: plain data. */
export type EncodedBefore = {
  readonly messages: readonly EncodedMessages[];
  /** The shape of the prompt with these messages, and a digest of all else that it depends on. */
  readonly shape: PromptShape;
  readonly head: string;
  readonly userTextBytes: number;
  /** The names of the tools that they declare. */
  readonly shown: ReadonlySet<string>;
};

/** Earlier messages that go into the bytes of a request at a place. */
export type InsertedMessages = { readonly at: number; readonly messages: readonly EncodedMessages[] };

/** What `EncodedBefore` of the next request is made of. */
export type EncodedAfter = Pick<EncodedBefore, "head" | "userTextBytes" | "shown"> & {
  /** The place of the request's own messages in its bytes, behind those of the head, and their number. */
  readonly from: number;
  readonly to: number;
  readonly count: number;
  /** The number of boundaries behind them. */
  readonly boundaries: number;
};

/** Thrown where all earlier messages have to be digested again, which a large conversation does on a thread. */
export class HeadChanged extends Error {}

/**
 * The facts of a request for routing, where the conversation itself is no longer read. It is plain data, which can be
 * passed between threads.
 */
export type PromptFacts = {
  readonly model: string;
  readonly tenant: string;
  /** The digests and sizes of the prompt, by which prefixes are compared. */
  readonly shape: PromptShape;
  /** The digest of the caller's own cache key; empty where the caller gave none. */
  readonly cacheKey: string;
  /** The milliseconds for which the prompt should stay in a cache; undefined when the request does not set it. */
  readonly ttlMs: number | undefined;
  /** Whether reasoning that the caller sent back did not open, and is missing from the prompt. Default: false. */
  readonly lacksReasoning?: boolean;
  /** Whether the tools of the conversation that the prompt continues are missing from it. Default: false. */
  readonly lacksTools?: boolean | undefined;
  /** Why no endpoint could take the prompt when it was encoded; undefined where one may. */
  readonly beyond: Beyond | undefined;
};

/** A Generate request in the bytes of the contract, with its facts for routing. */
export type EncodedRequest = {
  /** The message, from which `messageFor` makes that of a call; empty where no endpoint could take the prompt. */
  readonly bytes: Uint8Array;
  /** The part of the message that is not in `bytes`. */
  readonly inserted?: InsertedMessages | undefined;
  readonly facts: PromptFacts;
};

export type Encoding = {
  /** The number of leading messages, which no later request repeats. Default: 0. */
  readonly lead?: number | undefined;
  /** Messages that belong behind those. */
  readonly before?: EncodedBefore | undefined;
  /** Whether `before` may be digested again here. Default: true. */
  readonly mayDigest?: boolean | undefined;
  /** For a request that continues this one: how many of the last messages may grow, and the names of declared tools. */
  readonly after?: { readonly open: number; readonly shown: ReadonlySet<string> } | undefined;
};

/**
 * Encodes a request, with the digests of its prompt. `prefixKey` keys the digests of the prompt: 32 bytes, one for each
 * tenant, isolation salt and model. A prompt beyond all of `bounds`, those of the endpoints of the model, is not
 * encoded: it would be the most expensive of all. Throws `HeadChanged`.
 */
export function encodeRequest(
  request: GenerateRequest,
  prefixKey: Uint8Array,
  bounds: readonly PromptBound[] = [],
  encoding: Encoding = {},
): EncodedRequest & { readonly after?: EncodedAfter } {
  const { model, tenant, cache, messages } = request;
  const { before, after } = encoding;
  const textBytes = (before?.userTextBytes ?? 0) + userTextBytes(messages);
  const beyond = beyondBounds(textBytes, bounds);
  const head = (shown: ReadonlySet<string>) => headDigest(request, encoding.lead ?? 0, shown, prefixKey);
  const isSameHead = before !== undefined && before.shape.boundaries.length > 1 && before.head === head(before.shown);
  const shape = beyond ? NO_SHAPE : shapeOf(request, prefixKey, encoding, isSameHead);
  const facts = {
    model,
    tenant,
    shape,
    cacheKey: cache?.affinityKey ?? "",
    ttlMs: cache?.ttl && durationMs(cache.ttl),
    beyond,
  };
  if (beyond) return { bytes: new Uint8Array(), facts };
  const prefixDigests = digestsOf(shape.boundaries);
  const bytes = encodeResumable({ ...request, prefixDigests });
  if (!before && !after) return { bytes, facts };
  const { lead = 0 } = encoding;
  const from = placeOf(bytes, lead);
  const inserted = before && { at: from, messages: before.messages };
  if (!after) return { bytes, inserted, facts };
  const count = messages.length - lead - after.open;
  return {
    ...{ bytes, inserted, facts },
    after: {
      head: isSameHead && after.shown.size === before.shown.size ? before.head : head(after.shown),
      ...{ shown: after.shown, userTextBytes: textBytes, from, to: placeOf(bytes, lead + count), count },
      boundaries: shape.boundaries.length - after.open,
    },
  };
}

/** Returns the shape of a prompt with the messages before it. Throws `HeadChanged`. */
function shapeOf(
  request: GenerateRequest,
  key: Uint8Array,
  { lead = 0, before, mayDigest = true }: Encoding,
  isSameHead: boolean,
): PromptShape {
  if (!before) return promptShape(request, key);
  const { messages, tools } = request;
  const own = messages.slice(lead);
  if (isSameHead) return extendedShape(before.shape, { messages: own, tools }, key);
  if (!mayDigest) throw new HeadChanged("the head of the prompt has changed");
  const earlier = before.messages.flatMap(({ bytes }) => GenerateRequest.decode(bytes).messages);
  return promptShape({ messages: [...messages.slice(0, lead), ...earlier, ...own], tools }, key);
}

/** Returns a digest of what the digests of messages depend on beside these: leading messages, tools, and their key. */
function headDigest(
  { messages, tools }: Pick<GenerateRequest, "messages" | "tools">,
  lead: number,
  shown: ReadonlySet<string>,
  key: Uint8Array,
): string {
  const seen = tools.filter(({ name, deferred }) => !deferred || shown.has(name));
  const text = JSON.stringify([messages.slice(0, lead), seen]);
  return hash("sha256", `${Buffer.from(key).toString("base64")}${text}`, "base64");
}

/** Returns where the message of this number begins in the bytes of a request, or the place behind the last one. */
function placeOf(bytes: Uint8Array, number: number): number {
  return skipMessages(bytes, number).at;
}

/** Returns the place behind so many messages, and how many there were too few. */
function skipMessages(bytes: Uint8Array, number: number): { readonly at: number; readonly left: number } {
  const reader = new BinaryReader(bytes);
  let left = number;
  while (reader.pos < reader.len) {
    const at = reader.pos;
    const tag = reader.uint32();
    if (tag > MESSAGES_TAG || (tag === MESSAGES_TAG && left === 0)) return { at, left };
    if (tag === MESSAGES_TAG) left -= 1;
    reader.skip(tag & 7);
  }
  return { at: reader.pos, left };
}

/** Returns what a request behind this one begins with. */
export function encodedBefore(
  { bytes, inserted, facts: { shape } }: EncodedRequest,
  { from, to, count, boundaries, ...same }: EncodedAfter,
): EncodedBefore {
  // A copy, as the request's bytes have its tools as well.
  const own = count === 0 ? [] : [{ bytes: Uint8Array.from(bytes.subarray(from, to)), count }];
  return {
    messages: [...(inserted?.messages ?? []), ...own],
    shape: { ...shape, boundaries: shape.boundaries.slice(0, boundaries) },
    ...same,
  };
}

/** Returns the digests of a prompt's boundaries as bytes: of many the first two and the last ones. */
function digestsOf(boundaries: readonly Boundary[]): Buffer {
  const skipped = boundaries.length - MAX_DIGESTS;
  const sent = Buffer.alloc(DIGEST_BYTES * Math.min(boundaries.length, MAX_DIGESTS));
  let at = 0;
  for (const [index, { hash }] of boundaries.entries())
    if (index < HEAD_DIGESTS || index >= HEAD_DIGESTS + skipped) at += sent.write(hash, at, "base64url");
  return sent;
}

/**
 * Returns the shape of an encoded prompt without tools in its head, behind `tools`, which are a message of the contract
 * with these only.
 */
export function shapeBehind(tools: Uint8Array, bytes: Uint8Array, prefixKey: Uint8Array): PromptShape {
  const { messages, tools: deferred } = GenerateRequest.decode(bytes);
  return promptShape({ messages, tools: [...GenerateRequest.decode(tools).tools, ...deferred] }, prefixKey);
}

/** Returns the tools of a request that stand in the head of its prompt, as a message of the contract with these only. */
export function headTools(bytes: Uint8Array): Uint8Array {
  const reader = new BinaryReader(bytes);
  const tools: Tool[] = [];
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    // The messages, which may be tens of megabytes, are passed over.
    if (tag === TOOLS_TAG) tools.push(Tool.decode(reader.bytes()));
    else reader.skip(tag & 7);
  }
  const inHead = tools.filter(({ deferred }) => !deferred);
  return GenerateRequest.encode({ ...GenerateRequest.fromPartial({}), tools: inHead }).finish();
}

const FORBIDDEN = GenerateRequest.encode(
  GenerateRequest.fromPartial({ toolChoice: { mode: ToolChoiceMode.NONE } }),
).finish();

/** Puts tools in front of an encoded prompt, which may not be called; `shape` is that of the prompt behind them. */
export function withTools({ bytes, facts }: EncodedRequest, tools: Uint8Array, shape: PromptShape): EncodedRequest {
  const prefixDigests = digestsOf(shape.boundaries);
  const digests = GenerateRequest.encode(GenerateRequest.fromPartial({ prefixDigests })).finish();
  const resumable = bytes.byteLength - RESUMABLE_BYTES;
  const parts = [bytes.subarray(0, resumable), tools, FORBIDDEN, digests, bytes.subarray(resumable)];
  return { bytes: Buffer.concat(parts), facts: { ...facts, shape } };
}

/** What a call says beside the request. */
export type CallTerms = {
  readonly resumption: Resumption;
  /** What of the prompt is left out, as the endpoint has it. Default: nothing. */
  readonly base?: PromptBase | undefined;
  /** Whether the next turn will come over the caller's connection. Default: false. */
  readonly lease?: boolean;
  /** `make`: the prompt is read for another node. Else what another node has read of it. Default: neither. */
  readonly promptHandOver?: "make" | { readonly bytes: Uint8Array; readonly leftMs: number } | undefined;
};

/** The request to the engine beside the answer: nothing, the tokens of it, or the continuation of one. */
export type Resumption = "none" | "resumable" | Continuation;

/**
 * Encodes a request, whose field `resumable` comes last and is true: `messageFor` decides for each call whether it is
 * sent, without a copy of a message of tens of megabytes.
 */
function encodeResumable(request: GenerateRequest): Uint8Array {
  const used = writer;
  // A failed encoding must leave nothing in the next one.
  writer = new BinaryWriter();
  const bytes = GenerateRequest.encode(request, used).uint32(RESUMABLE_TAG).bool(true).finish();
  if (bytes.byteLength <= KEPT_BYTES) writer = used;
  return bytes;
}

/** The least text that a call leaves out, in bytes: less costs no more to send than to look up. */
const MIN_LEFT_OUT_BYTES = 16_384;

/** The messages that an endpoint has from an earlier request. */
export type PromptBase = { readonly digest: Buffer; readonly messages: number };

/**
 * Returns what of a prompt can be left out for an endpoint that has it up to a boundary; undefined for too little, and
 * where breakpoints are marked in it, which the endpoint does not keep.
 */
export function baseOf({ boundaries, headMessages = 0 }: PromptShape, upTo: number): PromptBase | undefined {
  const known = boundaries.slice(0, upTo + 1);
  const last = known.at(-1);
  if (!last || last.bytes < MIN_LEFT_OUT_BYTES || known.some(({ marked }) => marked)) return undefined;
  return { digest: Buffer.from(last.hash, "base64url"), messages: headMessages + upTo };
}

/** Returns the bytes of a request without its first messages. */
function bytesBehind({ bytes, inserted }: Pick<EncodedRequest, "bytes" | "inserted">, messages: number): Uint8Array {
  const first = placeOf(bytes, 0);
  const at = inserted?.at ?? bytes.byteLength;
  const parts = [{ bytes: bytes.subarray(first, at) }, ...(inserted?.messages ?? []), { bytes: bytes.subarray(at) }];
  let left = messages;
  const kept = parts.map((part) => {
    if ("count" in part && part.count <= left) {
      left -= part.count;
      return NOTHING;
    }
    const found = skipMessages(part.bytes, left);
    left = found.left;
    return part.bytes.subarray(found.at);
  });
  return Buffer.concat([bytes.subarray(0, first), ...kept]);
}

const NOTHING = new Uint8Array();

/** Returns the bytes of a request with those that are inserted. */
export function wholeBytes({ bytes, inserted }: Pick<EncodedRequest, "bytes" | "inserted">): Uint8Array {
  if (!inserted) return bytes;
  const { at, messages } = inserted;
  return Buffer.concat([bytes.subarray(0, at), ...messages.map((some) => some.bytes), bytes.subarray(at)]);
}

/**
 * Returns the message of one call, from the result of `encodeResumable`. Concatenated messages of the contract merge, so
 * that a continuation does not decode the request again.
 */
export function messageFor(
  request: Pick<EncodedRequest, "bytes" | "inserted">,
  { resumption, base, lease = false, promptHandOver }: CallTerms,
): Uint8Array {
  const encoded = base ? bytesBehind(request, base.messages) : wholeBytes(request);
  const own = resumption === "none" ? encoded.subarray(0, encoded.byteLength - RESUMABLE_BYTES) : encoded;
  const more = {
    lease,
    ...(base && { baseDigest: base.digest }),
    ...(typeof resumption === "object" && { continuation: resumption }),
    ...(promptHandOver && handOverFields(promptHandOver)),
  };
  if (!base && !lease && !promptHandOver && typeof resumption === "string") return own;
  return Buffer.concat([own, GenerateRequest.encode(GenerateRequest.fromPartial(more)).finish()]);
}

function handOverFields(handOver: NonNullable<CallTerms["promptHandOver"]>) {
  // No turn follows on the node that only reads.
  if (handOver === "make") return { makeHandOver: true, maxOutputTokens: 0, lease: false };
  return { handOver: Buffer.from(handOver.bytes), handOverLeft: toDuration(handOver.leftMs) };
}
