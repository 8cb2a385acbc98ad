import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyInstance } from "fastify";
import { ApiError } from "../../errors.ts";
import type { Detail } from "../../outcome.ts";
import { atOnce } from "../at-once.ts";

/*
 * Request heads that Node's parser accepts and a proxy in front may parse differently, which is how requests are
 * smuggled. Checked on `rawHeaders`, because `headers` has already joined or dropped repeated fields.
 */

/**
 * Most header fields of a request. Node silently drops fields beyond 2,000; no client sends as many as this. A proxy in
 * front that accepts 64 may add its own.
 */
export const MAX_HEADER_FIELDS = 80;

/**
 * Header fields that matter to the gateway or a proxy, and must not be repeated. Credentials are checked where they are
 * read.
 */
const SINGLE_FIELDS = ["host", "content-type", "content-encoding", "transfer-encoding", "expect"] as const;

type SingleField = (typeof SINGLE_FIELDS)[number];

/** A content type with a charset other than `utf-8`, which may be quoted or absent. */
const OTHER_CHARSET = /;\s*charset=(?!"?utf-?8"?\s*(?:;|$))/i;

/**
 * Checks the head of every request of `app`, before keys and bodies. It answers `Expect`: a body is requested with 100
 * only if its key and its length are valid.
 */
export function refuseUnclearRequests(app: FastifyInstance): void {
  const waiting = new WeakSet<IncomingMessage>();
  app.server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    waiting.add(request);
    app.server.emit("request", request, response);
  });
  // Node answers any other expectation with 417, without an envelope.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  const checking = atOnce((request, reply) => {
    // Node's parser reads no bytes after a request for another protocol.
    if (request.raw.headers.upgrade !== undefined) reply.header("connection", "close");
    try {
      checkHead(request.raw);
    } catch (error) {
      // The next bytes on the connection may be ambiguous as well.
      reply.header("connection", "close");
      throw error;
    }
  });
  app.addHook("onRequest", checking);
  app.addHook("preParsing", (request, reply, _payload, done) => {
    if (waiting.has(request.raw)) reply.raw.writeContinue();
    done();
  });
}

/**
 * Makes the error for a body of more than `maxBytes` bytes. Agents that parse its text, or the number in it, shorten
 * their conversation and continue.
 */
export function bodyTooLarge(maxBytes: number): ApiError {
  const text = `The request body is too large: it exceeds the limit of ${maxBytes} bytes.`;
  return new ApiError("request_too_large", text);
}

/** The part of a request's head, as parsed by Node, that decides whether the request is unambiguous. */
export type RequestHead = Readonly<Pick<IncomingMessage, "rawHeaders" | "httpVersion" | "url">>;

/**
 * Throws ApiError for an ambiguous request head: `header_fields_too_large` for too many fields, `expectation_failed`
 * for an expectation other than `100-continue`, `bad_request` otherwise.
 */
export function checkHead({ rawHeaders, httpVersion, url }: RequestHead): void {
  if (rawHeaders.length > 2 * MAX_HEADER_FIELDS)
    throw new ApiError("header_fields_too_large", `The request has more than ${MAX_HEADER_FIELDS} header fields.`);
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    throw unclear("The HTTP version is not 1.0 or 1.1.", "unclear_version");
  if (!url?.startsWith("/")) throw unclear("The request target must be a path.", "unclear_target");
  const fields = singleFields(rawHeaders);
  if (httpVersion === "1.1" && fields.host === undefined)
    throw unclear("The header 'host' is missing.", "unclear_host");
  checkBodyFields(fields, httpVersion);
}

function checkBodyFields(fields: Readonly<Partial<Record<SingleField, string>>>, httpVersion: string): void {
  const coding = fields["transfer-encoding"];
  if (coding !== undefined && (coding.toLowerCase() !== "chunked" || httpVersion === "1.0"))
    throw unclear("The header 'transfer-encoding' must be 'chunked'.", "unclear_transfer_encoding");
  const encoding = fields["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity")
    throw unclear(
      "The header 'content-encoding' must be 'identity': compressed bodies are not read.",
      "unclear_encoding",
    );
  if (OTHER_CHARSET.test(fields["content-type"] ?? ""))
    throw unclear("The charset in the header 'content-type' must be utf-8.", "unclear_charset");
  if (fields.expect !== undefined && fields.expect.toLowerCase() !== "100-continue")
    throw new ApiError("expectation_failed", "The header 'expect' can only be '100-continue'.");
}

function singleFields(rawHeaders: readonly string[]): Partial<Record<SingleField, string>> {
  const found: Partial<Record<SingleField, string>> = {};
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const given = rawHeaders[at]?.toLowerCase();
    const name = SINGLE_FIELDS.find((field) => field === given);
    if (name === undefined) continue;
    if (found[name] !== undefined) throw unclear(`The header '${name}' is given more than once.`, "unclear_duplicate");
    found[name] = rawHeaders[at + 1] ?? "";
  }
  return found;
}

function unclear(message: string, detail: Detail): ApiError {
  return new ApiError("bad_request", message, { detail });
}
