import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../errors.ts";
import type { Detail } from "../../outcome.ts";

/*
 * Request heads that Node's parser accepts and a proxy in front may parse differently, which is how requests are
 * smuggled. Checked on `rawHeaders`, because `headers` has already joined or dropped repeated fields.
 */

/**
 * Most header fields of a request. Node silently drops fields beyond 2,000; no client sends as many as this. A proxy in
 * front that accepts 64 may add its own.
 */
export const MAX_HEADER_FIELDS = 80;

/** Header fields that must not be repeated. Credentials are checked where they are read. */
const SINGLE_FIELDS: ReadonlySet<string> = new Set([
  "host",
  "content-type",
  "content-encoding",
  "transfer-encoding",
  "expect",
]);

type SingleFields = Readonly<Record<string, string | undefined>>;

/** A content type with a charset other than `utf-8`, which may be quoted or absent. */
const OTHER_CHARSET = /;\s*charset=(?!"?utf-?8"?\s*(?:;|$))/i;

/** Checks the head of a request. Throws `ApiError`; the connection closes then. */
export function refuseUnclearHead({ raw }: FastifyRequest, reply: FastifyReply): void {
  // Node's parser reads no bytes after a request for another protocol.
  if (raw.headers.upgrade !== undefined) reply.header("connection", "close");
  try {
    checkHead(raw);
  } catch (error) {
    // The next bytes on the connection may be ambiguous as well.
    reply.header("connection", "close");
    throw error;
  }
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
  if (!url?.startsWith("/")) throw unclear("The request target must be a path or an http URL.", "unclear_target");
  const fields = singleFields(rawHeaders);
  if (httpVersion === "1.1" && fields.host === undefined)
    throw unclear("The header 'host' is missing.", "unclear_host");
  checkBodyFields(fields, httpVersion);
}

function checkBodyFields(fields: SingleFields, httpVersion: string): void {
  const coding = fields["transfer-encoding"];
  if (coding !== undefined && (coding.toLowerCase() !== "chunked" || httpVersion === "1.0"))
    throw unclear("The header 'transfer-encoding' must be 'chunked'.", "unclear_transfer_encoding");
  if (OTHER_CHARSET.test(fields["content-type"] ?? ""))
    throw unclear("The charset in the header 'content-type' must be utf-8.", "unclear_charset");
  if (fields.expect !== undefined && fields.expect.toLowerCase() !== "100-continue")
    throw new ApiError("expectation_failed", "The header 'expect' can only be '100-continue'.");
}

function singleFields(rawHeaders: readonly string[]): SingleFields {
  const found: Record<string, string> = {};
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? "";
    if (!SINGLE_FIELDS.has(name)) continue;
    if (found[name] !== undefined) throw unclear(`The header '${name}' is given more than once.`, "unclear_duplicate");
    found[name] = rawHeaders[at + 1] ?? "";
  }
  return found;
}

function unclear(message: string, detail: Detail): ApiError {
  return new ApiError("bad_request", message, { detail });
}

/** Headers that may carry the version, the service's own name first; official clients send the other. */
const VERSION_HEADERS = ["vendor-version", "anthropic-version"] as const;

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Checks the version header of a Format B request. A missing header means the default version, and every date is
 * accepted, because no behaviour depends on it. Throws ApiError `invalid_value` for any other value.
 */
export function checkApiVersion(headers: IncomingHttpHeaders): void {
  const name = VERSION_HEADERS.find((header) => headers[header] !== undefined);
  if (name === undefined || DATE.test(String(headers[name]))) return;
  throw new ApiError("invalid_value", `${name}: expected a date of the form YYYY-MM-DD.`, {
    detail: "api_version_malformed",
  });
}
