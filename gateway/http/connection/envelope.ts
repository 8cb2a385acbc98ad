import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ApiError, type Envelope } from "../../errors.ts";
import { errorBody, statusOf } from "../../formats/error-envelope.ts";
import { fromFastify } from "../fastify-error.ts";
import { pathOf } from "../record/request-facts.ts";
import { answerToUnread } from "./unread-body.ts";

/** Waiting longer than a minute is not obeyed by the SDKs: they fall back to a rule of their own. */
const MAX_RETRY_AFTER_MS = 60_000;

/** Every error that reaches this context goes out in `envelope`. */
export function useEnvelope(app: FastifyInstance, envelope: Envelope): void {
  app.setErrorHandler((thrown, request, reply) => sendError(request, reply, envelope, fromFastify(thrown)));
}

export function sendError(
  request: FastifyRequest,
  reply: FastifyReply,
  envelope: Envelope,
  error: ApiError,
): FastifyReply {
  request.facts.detail ??= error.detail;
  reply.code(statusOf(error, envelope)).headers(retryHeaders(error));
  if (error.code === "invalid_api_key") reply.header("www-authenticate", "Bearer");
  reply.type("application/json; charset=utf-8");
  const body = JSON.stringify(errorBody(error, envelope, request.facts.requestId));
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

/** The envelope of a path that no route has. */
export function envelopeOf(path: string): Envelope {
  return path === "/v1/messages" || path.startsWith("/v1/messages/") ? "b" : "a";
}

/** Methods of the known paths, so that a wrong method is told apart from a wrong path. */
const METHODS: Readonly<Record<string, readonly string[]>> = {
  "/v1/chat/completions": ["POST"],
  "/v1/messages": ["POST"],
  "/v1/messages/count_tokens": ["POST"],
  "/v1/responses": ["POST"],
  "/v1/models": ["GET", "HEAD"],
};

/** Nearly always the base URL of a client has `/v1` too many or too few. */
const UNKNOWN_URL = `Unknown request URL. This API has ${Object.keys(METHODS).join(", ")}: please check your client's base URL.`;

/** For paths and methods that no route has. */
export function answerNotFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = pathOf(request.raw);
  const methods = METHODS[path] ?? (path.startsWith("/v1/models/") ? METHODS["/v1/models"] : undefined);
  if (!methods || methods.includes(request.method))
    return sendError(request, reply, envelopeOf(path), new ApiError("unknown_url", UNKNOWN_URL));
  reply.header("allow", methods.join(", "));
  const wrong = new ApiError("method_not_allowed", `This URL does not take this method. Use ${methods[0]}.`);
  return sendError(request, reply, envelopeOf(path), wrong);
}
