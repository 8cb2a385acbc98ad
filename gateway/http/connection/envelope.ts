import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError, type Envelope } from "../../errors.ts";
import { errorBody, statusOf } from "../../formats/error-envelope.ts";
import { envelopeOf, OFFERED_PATHS, routeAt } from "../../routes.ts";
import { fromFastify } from "../fastify-error.ts";
import { answerToUnread } from "./unread-body.ts";

/**
 * The longest time that a caller is told to wait, in milliseconds. The SDKs do not obey a longer one: they fall back to
 * a rule of their own.
 */
const MAX_RETRY_AFTER_MS = 60_000;

/** Makes every error that reaches this context go out in `envelope`. */
export function useEnvelope(app: FastifyInstance, envelope: Envelope): void {
  app.setErrorHandler((thrown, request, reply) => sendError(request, reply, envelope, fromFastify(thrown)));
}

/** Answers a request with an error in `envelope`, and records its token. */
export function sendError(
  request: FastifyRequest,
  reply: FastifyReply,
  envelope: Envelope,
  error: ApiError,
): FastifyReply {
  request.record.refused(error.detail);
  reply.code(statusOf(error, envelope)).headers(retryHeaders(error));
  if (error.code === "invalid_api_key") reply.header("www-authenticate", "Bearer");
  reply.type("application/json; charset=utf-8");
  const body = JSON.stringify(errorBody(error, envelope, request.record.requestId));
  if (request.raw.complete) return reply.send(body);
  // What is left of a body that was not read would be taken for the next request.
  return reply
    .headers({ connection: "close", "content-length": Buffer.byteLength(body) })
    .send(answerToUnread(request.raw, body));
}

function retryHeaders(error: ApiError): Record<string, string> {
  const headers: Record<string, string> = {};
  if (error.shouldRetry !== undefined) headers["x-should-retry"] = String(error.shouldRetry);
  if (error.retryAfterMs !== undefined) {
    const ms = Math.min(MAX_RETRY_AFTER_MS, Math.max(1, Math.round(error.retryAfterMs)));
    headers["retry-after-ms"] = String(ms);
    headers["retry-after"] = String(Math.max(1, Math.ceil(ms / 1000)));
  }
  return headers;
}

/** The words for a path that no route has. Nearly always the base URL of a client has `/v1` too many or too few. */
const UNKNOWN_URL = `Unknown request URL. This API has ${OFFERED_PATHS.join(", ")}: please check your client's base URL.`;

/** Answers a request whose path no route has, or whose route does not take its method. */
export function answerNotFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = pathOf(request.raw);
  const methods: readonly string[] | undefined = routeAt(path)?.methods;
  if (!methods || methods.includes(request.method))
    return sendError(request, reply, envelopeOf(path), new ApiError("unknown_url", UNKNOWN_URL));
  reply.header("allow", methods.join(", "));
  const wrong = new ApiError("method_not_allowed", `This URL does not take this method. Use ${methods[0]}.`);
  return sendError(request, reply, envelopeOf(path), wrong);
}

/** Returns the path of a request target without its query string. */
export function pathOf(request: IncomingMessage): string {
  const url = request.url ?? "/";
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}
