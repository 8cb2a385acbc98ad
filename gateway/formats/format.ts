import type {
  CountTokensRequest,
  Event,
  GenerateRequest,
  Sampling,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Part } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { Catalog } from "../catalog.ts";
import type { ApiError, FieldPath } from "../errors.ts";
import type { Completion } from "./completion.ts";
import type { UnreadableRule } from "./parts.ts";

/*
 * A format is synchronous and pure: no clock, no random draw, no I/O. Ids, time and keys are arguments, so that the same
 * canonical events give the same bytes.
 */

/** A message of the contract whose optional fields have to be named, so that a new one does not compile until read. */
export type EveryField<Message> = { readonly [Key in keyof Required<Message>]: Message[Key] };

/** A request as the engine sees it, without the fields that the gateway's route adds. */
export type CanonicalRequest = EveryField<
  Omit<
    GenerateRequest,
    | ("requestId" | "tenant" | "priority" | "stream" | "resumable" | "continuation" | "sampling")
    | ("prefixDigests" | "baseDigest" | "lease" | "makeHandOver" | "handOver" | "handOverLeft")
  > & { readonly sampling: EveryField<Sampling> | undefined }
>;

/** Reasoning is meaningless to another model; any model can continue from the summary of a conversation. */
export type SealedKind = "reasoning" | "summary";

/** Seals text for a stateless caller, and opens it for the same tenant, format and kind, and reasoning's model. */
export type Sealer = {
  /** Authenticates `text` without hiding it, for the `signature` of a thinking block. */
  sign(text: string): string;
  /** Hides and authenticates `text`, for the `encrypted_content` of an item. Default: reasoning. */
  seal(text: string, kind?: SealedKind): string;
  /** Returns the text that `seal` was given with this kind; undefined when `sealed` is not ours. Default: reasoning. */
  open(sealed: string, kind?: SealedKind): string | undefined;
};

/** What the items of a conversation leave for those behind them, beside the messages: plain data. */
export type ItemState = {
  /** The numbers of items so far, and of the messages that they have made for good. */
  readonly items: number;
  readonly messages: number;
  /** The parts of an assistant turn that further items may belong to, and the number of its first item. */
  readonly turn: readonly Part[];
  readonly turnPlace: number;
  /** The names of all calls by their ids; each has its output. */
  readonly calls: ReadonlyMap<string, string>;
  /** Whether all messages so far are system text. */
  readonly isHead: boolean;
  /** The names of the tools that messages have declared. */
  readonly shown: ReadonlySet<string>;
  /** The items that brought tools: their lists as JSON text, how they were added, and the names that needed a declaration. */
  readonly tools: readonly { readonly json: string; readonly deferred: boolean; readonly names: readonly string[] }[];
  readonly acceptsImages: boolean;
};

export type PrepareContext = {
  /** What the conversation's earlier items left; absent for a whole conversation. */
  readonly before?: ItemState | undefined;
  readonly sealer: (model: string) => Sealer;
  /** Returns whether some engine of this model has image input. */
  readonly acceptsImages: (model: string) => boolean;
  readonly settings: FormatSettings;
  readonly catalog: Catalog;
  /** The ids of the models that the caller can use now, for the refusal of an unknown one. */
  readonly usableModels: readonly string[];
  /** Whether the key is for load tests, whose answers may be kept from ending. */
  readonly loadTests: boolean;
};

export type FormatSettings = {
  /** Whether Format B refuses consecutive turns of one role instead of merging them. */
  readonly strictAlternation: boolean;
  /** For images and files that a model cannot read, in the user's own content of the last message. */
  readonly unreadableContent: UnreadableRule;
  /** Whether Format B refuses messages of the role `system`, or accepts them as system text at their position. */
  readonly systemRole: "reject" | "merge";
  /** Whether hosted tools of the Responses format and their items are refused, or left out. */
  readonly unsupportedTools: "reject" | "skip";
};

/** Why less of a prompt was cached than possible, as far as the gateway knows; `upstream/load-balancing` has the reasons. */
export type CacheMiss = {
  /** 0 where nothing needs explaining. */
  readonly lostTokens: number;
  readonly reason: string;
  /** The part of the prompt in which the caller's change begins, if any. */
  readonly changedPart: "tools" | "system" | "messages" | undefined;
};

/** What a reply is written from, besides the events. */
export type Head = {
  /** The part of `chatcmpl-…`, `msg_…` and `resp_…` behind the prefix, 24 to 32 of `[A-Za-z0-9]`. */
  readonly replyId: string;
  readonly requestId: string;
  /** Since the epoch. */
  readonly createdSeconds: number;
  readonly nowSeconds: () => number;
  readonly sealer: Sealer;
  /** Undefined until the engine has reported cached tokens. */
  readonly cacheMiss: () => CacheMiss | undefined;
};

/** The places in a body of the parts of its request that an engine may refuse. */
export type Places = {
  /** The paths in the body of the engine's tools, in their order. Default: `tools[i]`. */
  readonly toolPaths?: readonly FieldPath[];
  /** The paths of their schemas. Default: `FieldsAtFault.toolSchema` inside of each tool. */
  readonly schemaPaths?: readonly FieldPath[];
  /** The body's message of each canonical message, `INSTRUCTIONS` or `WHOLE_PROMPT`. Default: the same number. */
  readonly messagePlaces?: readonly number[];
};

/** A checked request: plain data, which can go from one thread to another. */
export type Prepared<Options extends object = object> = Places & {
  readonly model: string;
  readonly stream: boolean;
  readonly request: CanonicalRequest;
  readonly options: Options;
  /** The contract's priority by hints in the body, 0 or below. Default: 0. */
  readonly priority?: number;
  /** The number of leading messages that are not of the conversation's items. Default: 0. */
  readonly lead?: number;
  /** For a request that continues this one with new items only; absent where none can. */
  readonly after?: ItemState | undefined;
};

/** The place of a canonical message that came from the instructions field, beside the prompt. */
export const INSTRUCTIONS = -1;
/** The place of a canonical message that is all of the prompt's field, where that is no list. */
export const WHOLE_PROMPT = -2;

export type PreparedCount = Places & {
  readonly model: string;
  readonly request: Omit<CountTokensRequest, "tenant" | "cache">;
};

/** Returns the count of all that engines render of the prompt, so that it equals the answer's input tokens. */
export function countOf({ request, ...prepared }: Pick<Prepared, "request"> & Places): PreparedCount {
  const { model, messages, tools, toolChoice, reasoning } = request;
  const { toolPaths, schemaPaths, messagePlaces } = prepared;
  const places = {
    ...(toolPaths && { toolPaths }),
    ...(schemaPaths && { schemaPaths }),
    ...(messagePlaces && { messagePlaces }),
  };
  return { model, request: { model, messages, tools, toolChoice, reasoning }, ...places };
}

/**
 * Writes canonical events as the text of a server-sent event stream. Each call returns complete frames, or "" for an
 * event that the format does not show. A `started` after the first one, from a retry, is ignored.
 */
export interface StreamEncoder {
  next(event: Event): string;
  /** The result of `next` for a delta with this text and no log probabilities, without creating an event. */
  text(text: string): string;
  /** Returns the format's error frame, which ends the stream. */
  fail(error: ApiError): string;
  /** Returns a keep-alive that every supported client accepts at any point of the stream. */
  keepAlive(): string;
}

/** The fields to name in the error when the engine, which is independent of formats, refuses a prompt or a schema. */
export type FieldsAtFault = {
  readonly prompt: FieldPath;
  readonly instructions: FieldPath;
  readonly outputSchema: FieldPath;
  /** The path that leads from a tool to its schema. */
  readonly toolSchema: FieldPath;
};

/** `Options` passes from the reader of a body to the writer of its answer; the code between does not inspect it. */
export type Format<Options extends object = object> = {
  /** The label of the format in log and statistics. */
  readonly name: string;
  readonly fields: FieldsAtFault;
  /** Whether agents of the format repeat a request whose stream was cut, but not one that ended in an error frame. */
  readonly repeatsCutStreams: boolean;
  /** Checks a parsed JSON body. Throws `ApiError` only. */
  prepare(body: unknown, context: PrepareContext): Prepared<Options>;
  encoder(head: Head, options: Options): StreamEncoder;
  reply(head: Head, completion: Completion, options: Options): object;
};

export type CountFormat = Pick<Format, "name" | "fields"> & {
  /** Checks a parsed JSON body. Throws `ApiError` only. */
  prepare(body: unknown, context: PrepareContext): PreparedCount;
  reply(inputTokens: number): object;
};
