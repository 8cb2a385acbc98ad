import type { CountTokensRequest, Event, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Catalog } from "../catalog.ts";
import type { ApiError, FieldPath } from "../errors.ts";
import type { Completion } from "./completion.ts";
import type { UnreadableRule } from "./unreadable.ts";

/*
 * What a format is. Everything below is synchronous and pure: no clock, no random draw, no I/O. Ids, time and keys come
 * in as arguments, so that the same canonical events give the same bytes.
 */

/** A request as the engine sees it, without what only the gateway's route knows. */
export type CanonicalRequest = Omit<
  GenerateRequest,
  "requestId" | "tenant" | "priority" | "stream" | "resumable" | "continuation" | "prefixDigests"
>;

/**
 * The kinds of text that callers carry sealed: the reasoning of a model, which means nothing to another one, and the
 * summary of a conversation, which any model may go on from.
 */
export type SealedKind = "reasoning" | "summary";

/**
 * Makes text safe to hand to a stateless caller and to take back: only what this service produced for the same tenant,
 * in the same format and as the same kind opens again, and reasoning for the same model only.
 */
export type Sealer = {
  /** Authenticates `text` without hiding it, for the `signature` of a thinking block. */
  sign(text: string): string;
  /** Hides and authenticates `text`, for the `encrypted_content` of an item. Default: reasoning. */
  seal(text: string, kind?: SealedKind): string;
  /** Returns the text that `seal` was given with this kind; undefined when `sealed` is not ours. Default: reasoning. */
  open(sealed: string, kind?: SealedKind): string | undefined;
};

/** What checking a body needs to know beyond the body. */
export type PrepareContext = {
  /** Returns what opens the sealed texts that the caller sends back, to a model by its catalog id. */
  readonly sealer: (model: string) => Sealer;
  /**
   * Returns whether some engine of this model takes images; where none does, they are content that it cannot take.
   */
  readonly acceptsImages: (model: string) => boolean;
  /** The settings of the formats. */
  readonly settings: FormatSettings;
  /** The models of the service. */
  readonly catalog: Catalog;
  /** The ids of the models that the caller can use now, which the refusal of an unknown one names. */
  readonly usableModels: readonly string[];
};

/** What the configuration says about the formats. */
export type FormatSettings = {
  /** Whether Format B refuses consecutive turns of one role instead of merging them. */
  readonly strictAlternation: boolean;
  /** What becomes of images and files that a model cannot take, where they are the user's own in the last message. */
  readonly unreadableContent: UnreadableRule;
  /** Whether Format B refuses messages of the role `system` with 400, or takes them as system text where they stand. */
  readonly systemRole: "reject" | "merge";
  /** The fields of chat answers that hold the model's reasoning. */
  readonly reasoningField: "reasoning_content" | "reasoning" | "both";
  /** Whether hosted tools of the Responses format are refused with 400, or left out. */
  readonly unsupportedTools: "reject" | "skip";
};

/** What a reply needs to know beyond the events. */
export type Head = {
  /**
   * The part of `chatcmpl-…`, `msg_…` and `resp_…` behind the prefix, 24 to 32 of `[A-Za-z0-9]`; item ids are built
   * from it.
   */
  readonly replyId: string;
  /** The id of the request, which error frames carry. */
  readonly requestId: string;
  /** The time at which the reply was begun, in seconds since the epoch. */
  readonly createdSeconds: number;
  /** Returns the time now in seconds since the epoch, for when the reply is complete. */
  readonly nowSeconds: () => number;
  /** Seals and signs the reasoning that the reply shows. */
  readonly sealer: Sealer;
};

/** The places in a body of the parts of its request that an engine may refuse. */
export type Places = {
  /**
   * The paths in the body of the tools that the engine is sent, in their order. Default: each stands where it stands in
   * the request, at `tools[i]`.
   */
  readonly toolPaths?: readonly FieldPath[];
  /**
   * The number of the body's message or item that each canonical message came from, else `INSTRUCTIONS` or
   * `WHOLE_PROMPT`. Default: the number is the same.
   */
  readonly messagePlaces?: readonly number[];
};

/** A checked request: plain data, which can go from one thread to another. */
export type Prepared<Options extends object = object> = Places & {
  /** The catalog id of the model. */
  readonly model: string;
  /** Whether the caller asked for an event stream. */
  readonly stream: boolean;
  /** The canonical form of the request. */
  readonly request: CanonicalRequest;
  /** What writing the answer needs to know of the request. */
  readonly options: Options;
};

/** The place of a canonical message that came from the field which instructs the model beside the prompt. */
export const INSTRUCTIONS = -1;
/** The place of a canonical message that is all of the prompt's field, where that is no list. */
export const WHOLE_PROMPT = -2;

/** A checked count of the tokens of a prompt. */
export type PreparedCount = Places & {
  /** The catalog id of the model. */
  readonly model: string;
  /** The canonical form of the count, without whom it is for. */
  readonly request: Omit<CountTokensRequest, "tenant">;
};

/**
 * Returns the count of the prompt that a request has: all that engines render of it, so that the count equals the input
 * tokens of the answer.
 */
export function countOf({ request, toolPaths, messagePlaces }: Pick<Prepared, "request"> & Places): PreparedCount {
  const { model, messages, tools, toolChoice, reasoning } = request;
  const places = { ...(toolPaths && { toolPaths }), ...(messagePlaces && { messagePlaces }) };
  return { model, request: { model, messages, tools, toolChoice, reasoning }, ...places };
}

/**
 * Writes canonical events as the text of a server-sent event stream. Each call returns complete frames, or "" where the
 * format shows nothing. A `started` after the first one, of a repeated try, is ignored.
 */
export interface StreamEncoder {
  /** Returns the frames of an event. */
  next(event: Event): string;
  /**
   * Returns the frames of a delta of the open block that has this text and no log probabilities: what `next` returns for
   * such an event, without one having to be made.
   */
  text(text: string): string;
  /** Returns the format's error frame, which ends the stream. */
  fail(error: ApiError): string;
  /** Returns a sign of life that every known client takes, at any point of the stream. */
  keepAlive(): string;
}

/** The fields of a format that are at fault when the engine, which knows no formats, refuses a prompt or a schema. */
export type FieldsAtFault = {
  /** The field that holds the prompt. */
  readonly prompt: FieldPath;
  /** The field that instructs the model beside the prompt. */
  readonly instructions: FieldPath;
  /** The field that holds the schema of the answer. */
  readonly outputSchema: FieldPath;
  /** The path that leads from a tool to its schema. */
  readonly toolSchema: FieldPath;
};

/**
 * An HTTP format: how its bodies are read, and how its answers are written. `Options` is what the one hands to the
 * other; whoever stands between them does not look at it.
 */
export type Format<Options extends object = object> = {
  /** The label of the format in log and statistics. */
  readonly name: string;
  /** The fields that are at fault when the engine, which knows no formats, refuses a prompt or a schema. */
  readonly fields: FieldsAtFault;
  /** Checks a parsed JSON body. Throws `ApiError` only. */
  prepare(body: unknown, context: PrepareContext): Prepared<Options>;
  /** Makes the encoder of the event stream that answers a request with these options. */
  encoder(head: Head, options: Options): StreamEncoder;
  /** Makes the body of the non-streaming reply to a request with these options. */
  reply(head: Head, completion: Completion, options: Options): object;
};

/** The way in which an HTTP format asks how many tokens a prompt has. */
export type CountFormat = Pick<Format, "name" | "fields"> & {
  /** Checks a parsed JSON body. Throws `ApiError` only. */
  prepare(body: unknown, context: PrepareContext): PreparedCount;
  /** Makes the body of the reply. */
  reply(inputTokens: number): object;
};
