import type { Event, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError, FieldPath } from "../errors.ts";
import type { Completion } from "./completion.ts";

/*
 * What a format is. Everything below is synchronous and pure: no clock, no chance, no I/O. Ids, time and keys come in as
 * arguments, so that the same canonical events give the same bytes.
 */

/** The request as the engine sees it, without what only the gateway's route knows. */
export type CanonicalRequest = Omit<GenerateRequest, "requestId" | "tenant" | "priority" | "stream">;

/**
 * Makes reasoning safe to hand to a stateless caller and to take back: only text that this service produced for the same
 * tenant opens again.
 */
export type Sealer = {
  /** Authenticates `text` without hiding it: the `signature` of a thinking block. */
  sign(text: string): string;
  /** Hides and authenticates `text`: `encrypted_content` of a reasoning item. */
  seal(text: string): string;
  /** The text that `seal` was given, or undefined when `sealed` is not ours. */
  open(sealed: string): string | undefined;
};

/** What checking a body needs to know beyond the body. */
export type PrepareContext = {
  readonly sealer: Sealer;
  /** Whether some engine of this model takes images; without one they are refused with the path of the part. */
  readonly acceptsImages: (model: string) => boolean;
  readonly settings: FormatSettings;
};

export type FormatSettings = {
  /** Format B: refuse consecutive turns of one role instead of merging them. */
  readonly strictAlternation: boolean;
  /** Responses: hosted tools are refused with 400, or left out. */
  readonly unsupportedTools: "reject" | "skip";
};

/** What a reply needs to know beyond the events. */
export type Head = {
  /** 24 to 32 of `[A-Za-z0-9]`: the part of `chatcmpl-…`, `msg_…` and `resp_…` behind the prefix; item ids are built from it. */
  readonly replyId: string;
  readonly requestId: string;
  readonly createdSeconds: number;
  /** When the reply was complete; only a folded reply knows it from the start. */
  readonly nowSeconds: () => number;
  readonly sealer: Sealer;
};

/** A checked request: the canonical form of it, and how its answer is written. */
export type Prepared = {
  /** Catalog id. */
  readonly model: string;
  readonly stream: boolean;
  readonly request: CanonicalRequest;
  encoder(head: Head): StreamEncoder;
  /** The body of the non-streaming reply. */
  reply(head: Head, completion: Completion): object;
};

/**
 * Canonical events to the text of a server-sent event stream. Each call returns complete frames, or "" where the format
 * shows nothing. A `started` after the first one (a repeated try) is ignored.
 */
export interface StreamEncoder {
  next(event: Event): string;
  /** The format's error frame, ending the stream. */
  fail(error: ApiError): string;
  /** A sign of life that every known client takes, at any point of the stream. */
  keepAlive(): string;
}

export type Format = {
  /** The label of the format in log and statistics. */
  readonly name: string;
  /** The fields that are at fault when the engine, which knows no formats, refuses a prompt or a schema. */
  readonly fields: { readonly prompt: FieldPath; readonly outputSchema: FieldPath };
  /** Checks a parsed JSON body. Throws `ApiError` only. */
  prepare(body: unknown, context: PrepareContext): Prepared;
};
