import type { IncomingMessage, Server } from "node:http";
import { Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { FollowedPems, Pems } from "../../../deploy/runtime/files/followed-file.ts";
import { envelopeOf } from "../../routes.ts";
import { logWhenClosed, type RecordSinks } from "../record/access-log.ts";
import { clientAddress } from "../record/client-address.ts";
import { fromFastify } from "../record/request-context.ts";
import { NO_ROUTE, RequestRecord } from "../record/request-record.ts";
import { traceContextOf } from "../record/trace-context.ts";
import { answerBrokenRequest, recordDropped } from "./broken-request.ts";
import { pathOf, sendError } from "./envelope.ts";
import { SocketTable } from "./sockets.ts";
import { UpgradableRequest } from "./upgradable-request.ts";

/** All header fields of a request together, in bytes. */
export const MAX_HEADER_BYTES = 16 * 1024;
/**
 * Milliseconds until an idle connection is closed. Longer than the usual 60 s of client pools, so that the client
 * closes first: a reused connection would be reset otherwise.
 */
const CONNECTION_IDLE_MS = 75_000;
/** Milliseconds between Node's checks for slow requests. */
const CONNECTIONS_CHECK_MS = 1_000;
const MAX_REQUESTS_PER_SOCKET = 1_000;

export type ReceiveTimeouts = {
  /** Milliseconds from the first byte of a request to the end of its body. */
  readonly requestTimeoutMs: number;
  /** Milliseconds from the first byte of a request to the end of its headers. */
  readonly requestHeadersTimeoutMs: number;
};

/**
 * Makes a server without routes: it parses requests, answers broken ones, and makes a record and an access log line for
 * each in its first hook. With `tls` it serves TLS with these certificates, and uses replaced certificates for new
 * connections; without, plain text.
 */
export function publicApp(timeouts: ReceiveTimeouts, sinks: RecordSinks, tls?: FollowedPems) {
  const { clock, tracing, trustedHops } = sinks;
  /** Records of requests, for replies from Node's parser errors. */
  const records = new WeakMap<IncomingMessage, RequestRecord>();
  const begin = (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    const { raw } = request;
    const { headers, socket } = raw;
    const { spec, labels = NO_ROUTE } = request.routeOptions.config ?? {};
    const record = new RequestRecord({ labels, trace: traceContextOf({}), headers, tracing, clock });
    request.record = record;
    // Now: a closed socket has no address.
    request.callerAddress = clientAddress(socket.remoteAddress, headers["x-forwarded-for"], trustedHops);
    records.set(raw, record);
    reply.headers({ "x-request-id": record.requestId, "request-id": record.requestId });
    if (!spec?.unrecorded) logWhenClosed(record, raw, reply.raw, request.callerAddress, sinks);
    done();
  };
  const answerBroken = (error: Error, socket: Socket) =>
    answerBrokenRequest(error, socket, { sockets, records, sinks });
  const http = {
    IncomingMessage: UpgradableRequest,
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: timeouts.requestHeadersTimeoutMs,
    connectionsCheckingInterval: CONNECTIONS_CHECK_MS,
    // Node would answer a missing `Host` header without an envelope.
    requireHostHeader: false,
  };
  const app: FastifyInstance = Fastify({
    keepAliveTimeout: CONNECTION_IDLE_MS,
    requestTimeout: timeouts.requestTimeoutMs,
    maxRequestsPerSocket: MAX_REQUESTS_PER_SOCKET,
    // The table of routes defines which routes accept HEAD.
    exposeHeadRoutes: false,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 512 },
    rewriteUrl: ({ url = "" }) => originForm(url),
    ...(tls ? { https: { ...http, ...secured(tls, timeouts) } } : { http }),
    clientErrorHandler(error, socket) {
      if (error.code !== "ERR_HTTP_REQUEST_TIMEOUT") answerBroken(error, socket);
      else sockets.unlessWhole(socket, () => answerBroken(error, socket));
    },
    frameworkErrors: (error, request, reply) => {
      begin(request, reply as never, () => {});
      void sendError(request, reply as never, envelopeOf(pathOf(request.raw)), fromFastify(error));
    },
  });
  const { server } = app;
  if (server instanceof SecureServer) tls?.onChange((renewed) => server.setSecureContext(secureContext(renewed)));
  const sockets = new SocketTable(server as Server);
  // Node has answered it with 503: it arrived after a reply with `connection: close`.
  server.on("dropRequest", (_request, socket) => recordDropped(503, socket as Socket, sinks));
  app.decorateRequest("record");
  app.decorateRequest("callerAddress", "");
  app.addHook("onRequest", begin);
  return { app, sockets };
}

/** A request target in absolute form, which servers must accept (RFC 9112, 3.2.2). Its authority has no effect. */
const ABSOLUTE_FORM = /^https?:\/\/[^/?#]+/i;

/** Returns path and query of a request target. */
function originForm(target: string): string {
  if (target.startsWith("/")) return target;
  const path = target.replace(ABSOLUTE_FORM, "");
  return path === "" || path.startsWith("?") ? `/${path}` : path;
}

/** Returns the TLS context of these certificates; the minimum version is TLS 1.2. */
function secureContext({ cert, key, ca }: Pems) {
  return { ...(cert && { cert }), ...(key && { key }), ...(ca && { ca }), minVersion: "TLSv1.2" as const };
}

/** Returns the TLS options of a server. Whether client certificates are required is fixed at the start. */
function secured({ now }: FollowedPems, { requestHeadersTimeoutMs }: ReceiveTimeouts) {
  const asksCallers = now.ca !== undefined;
  const asked = { requestCert: asksCallers, rejectUnauthorized: asksCallers };
  return { ...secureContext(now), ...asked, handshakeTimeout: requestHeadersTimeoutMs };
}
