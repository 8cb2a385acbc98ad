import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import { durationMs } from "../../deploy/runtime/time/clock.ts";
import { type Continuation, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Tool, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { type Boundary, DIGEST_BYTES, type PromptShape, promptShape } from "./load-balancing/boundary-hashes.ts";
import { type Beyond, beyondBounds, type PromptBound, userTextBytes } from "./prompt-bound.ts";

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
  /** The whole message, from which `messageFor` makes that of a call; empty where no endpoint could take the prompt. */
  readonly bytes: Uint8Array;
  readonly facts: PromptFacts;
};

/**
 * Encodes a request, with the digests of its prompt. `prefixKey` keys the digests of the prompt: 32 bytes, one for each
 * tenant, isolation salt and model. A prompt beyond all of `bounds`, those of the endpoints of the model, is not
 * encoded: it would be the most expensive of all.
 */
export function encodeRequest(
  request: GenerateRequest,
  prefixKey: Uint8Array,
  bounds: readonly PromptBound[] = [],
): EncodedRequest {
  const { model, tenant, cache, messages } = request;
  const beyond = beyondBounds(userTextBytes(messages), bounds);
  const shape = beyond ? NO_SHAPE : promptShape(request, prefixKey);
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
  return { bytes: encodeResumable({ ...request, prefixDigests }), facts };
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

/**
 * Returns the message of one call, from the result of `encodeResumable`. Concatenated messages of the contract merge,
 * so that a continuation does not decode the request again.
 */
export function messageFor(encoded: Uint8Array, resumption: Resumption): Uint8Array {
  if (resumption === "resumable") return encoded;
  if (resumption === "none") return encoded.subarray(0, encoded.byteLength - RESUMABLE_BYTES);
  return Buffer.concat([
    encoded,
    GenerateRequest.encode(GenerateRequest.fromPartial({ continuation: resumption })).finish(),
  ]);
}
