import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { ApiError, type Envelope } from "../../errors.ts";
import { messageOf, statusOf } from "../../formats/error-envelope.ts";
import { envelopeOf, OFFERED_PATHS, routeAt } from "../../routes.ts";
import { fromFastify } from "../record/request-context.ts";
import { cured, curedBody } from "./agent-cures.ts";
import { LINGER_MS } from "./sockets.ts";

/** Longest retry delay of a reply, in milliseconds. SDKs ignore a longer one and use their own backoff. */
const MAX_RETRY_AFTER_MS = 60_000;

/** Makes every error of this context use `envelope`. */
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
  const status = statusOf(error, envelope);
  reply.code(status).headers(retryHeaders(error, status));
  if (error.code === "invalid_api_key") reply.header("www-authenticate", "Bearer");
  reply.type("application/json; charset=utf-8");
  const { requestId } = request.record;
  const { headers } = request;
  const body = JSON.stringify(curedBody(cured(error, headers), envelope, requestId, headers));
  if (request.raw.complete) return reply.send(body);
  // The rest of an unread body would be parsed as the next request.
  return reply
    .headers({ connection: "close", "content-length": Buffer.byteLength(body) })
    .send(answerToUnread(request.raw, body));
}

/** Statuses that no retry can change; an agent without this hint retries them for a minute and more. */
const NEVER_REPEATED: ReadonlySet<number> = new Set([401, 403]);

export function retryHeaders(error: ApiError, status: number): Record<string, string> {
  const headers: Record<string, string> = {};
  const shouldRetry = error.shouldRetry ?? (NEVER_REPEATED.has(status) ? false : undefined);
  if (shouldRetry !== undefined) headers["x-should-retry"] = String(shouldRetry);
  if (error.retryAfterMs !== undefined) {
    const ms = Math.min(MAX_RETRY_AFTER_MS, Math.max(1, Math.round(error.retryAfterMs)));
    headers["retry-after-ms"] = String(ms);
    headers["retry-after"] = String(Math.max(1, Math.ceil(ms / 1000)));
  }
  return headers;
}

/** Returns the path with a route that was meant by one without: base URLs have `/v1` twice, or not at all. */
function meantPath(path: string): string | undefined {
  if (routeAt(path)) return undefined;
  const once = path.startsWith("/v1/v1/") ? path.slice("/v1".length) : path;
  return [once, `/v1${once}`].find((name) => name !== path && routeAt(name));
}

function unknownUrl(meant: string | undefined): ApiError {
  const advice =
    meant === undefined
      ? `This API has ${OFFERED_PATHS.join(", ")}: please check your client's base URL.`
      : `You mean ${meant}: your client's base URL has /v1 twice, or not at all.`;
  return new ApiError("unknown_url", `Unknown request URL. ${advice}`);
}

/**
 * Answers a request whose path is unknown, or whose route does not accept its method. An upgrade to another protocol,
 * such as WebSocket, gets 426: agents then use HTTP at once, whereas they retry after any other status.
 */
export function answerNotFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = pathOf(request.raw);
  const methods = routeAt(path)?.methods ?? [];
  const meant = meantPath(path);
  const error = whyNotFound(request, methods, meant);
  if (error.code === "upgrade_required") reply.headers({ upgrade: "HTTP/1.1", connection: "upgrade" });
  if (error.code === "method_not_allowed") reply.header("allow", methods.join(", "));
  return sendError(request, reply, envelopeOf(meant ?? path), error);
}

function whyNotFound(
  { method, headers }: FastifyRequest,
  methods: readonly string[],
  meant: string | undefined,
): ApiError {
  const asksUpgrade = headers.upgrade !== undefined;
  const [offered] = methods;
  if (offered === undefined || methods.includes(method)) {
    const unknown = unknownUrl(meant);
    return asksUpgrade ? refusedUpgrade(unknown, headers["user-agent"]) : unknown;
  }
  if (asksUpgrade) {
    const text = `This URL speaks HTTP only, no other protocol. Send a ${offered} request instead.`;
    return new ApiError("upgrade_required", text);
  }
  return new ApiError("method_not_allowed", `This URL does not take this method. Use ${offered}.`);
}

/**
 * Returns the error that an upgrade is refused with. Codex repeats an upgrade for seconds after any other status than 426;
 * after that one it sends the request by HTTP, and shows the error of the reply.
 */
export function refusedUpgrade(error: ApiError, userAgent = ""): ApiError {
  return userAgent.startsWith("codex") ? new ApiError("upgrade_required", messageOf(error, "a")) : error;
}

export function pathOf(request: IncomingMessage): string {
  const url = request.url ?? "/";
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}

/**
 * Returns the reply to a request whose body will not be read. It is complete with its last byte, because its length is
 * announced, but it ends only when the caller has left or had time to read it: closing a connection with unread data
 * makes the system send a reset, which may reach the caller before the reply. No more of the body is read meanwhile.
 */
function answerToUnread(request: IncomingMessage, body: string): Readable {
  request.pause();
  const { socket } = request;
  const forget = () => {
    cancel();
    socket.off("close", end);
  };
  const answer = new Readable({
    read() {},
    destroy(error, done) {
      forget();
      done(error);
    },
  });
  const end = () => {
    forget();
    answer.push(null);
  };
  const cancel = systemClock.after(LINGER_MS, end);
  answer.push(body);
  if (socket.destroyed) end();
  else socket.once("close", end);
  return answer;
}
