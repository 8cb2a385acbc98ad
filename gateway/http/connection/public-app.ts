import type { IncomingMessage, Server } from "node:http";
import { Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { FollowedPems, Pems } from "../../../deploy/runtime/files/followed-pems.ts";
import { envelopeOf } from "../../routes.ts";
import { atOnce } from "../at-once.ts";
import { fromFastify } from "../fastify-error.ts";
import { logWhenClosed, type RecordSinks } from "../record/access-log.ts";
import { RequestRecord, routeLabels } from "../record/request-record.ts";
import { traceContextOf } from "../record/trace-context.ts";
import { routeOf } from "../request-context.ts";
import { answerBrokenRequest, recordDropped } from "./broken-request.ts";
import { pathOf, sendError } from "./envelope.ts";
import { SocketTable } from "./sockets.ts";

/** The most bytes of all header fields of a request together. */
export const MAX_HEADER_BYTES = 16 * 1024;
/**
 * The time for which an idle connection is kept, in milliseconds. It is above the usual 60 s of clients' pools: whoever
 * closes first must not be us, or a reused connection is reset.
 */
const CONNECTION_IDLE_MS = 75_000;
/** The time between two looks of Node for requests that come too slowly, in milliseconds. */
const CONNECTIONS_CHECK_MS = 1_000;
const MAX_REQUESTS_PER_SOCKET = 1_000;

/** The times that requests may take to arrive. */
export type ReceiveTimeouts = {
  /** The time from the first byte of a request to the end of its body, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** The time from the first byte of a request to the end of its headers, in milliseconds. */
  readonly requestHeadersTimeoutMs: number;
};

/**
 * Makes a server without routes: it knows how requests are read, what answers those that cannot be, and that each has
 * its record from its beginning and a line of the log at its end. With `tls` it speaks TLS by these certificates, and
 * by those that they are replaced with on new connections; without, plain text.
 */
export function publicApp(
  timeouts: ReceiveTimeouts,
  sinks: RecordSinks,
  tls?: FollowedPems,
): { readonly app: FastifyInstance; readonly sockets: SocketTable } {
  const { clock, tracing } = sinks;
  /** The records of requests, for answers that Node's parser makes necessary. */
  const records = new WeakMap<IncomingMessage, RequestRecord>();
  const begin = (request: FastifyRequest, reply: FastifyReply) => {
    const { raw } = request;
    const spec = routeOf(request);
    const record = new RequestRecord({
      labels: routeLabels(spec),
      trace: traceContextOf({}),
      callerTrace: () => traceContextOf(raw.headers, tracing && ((traceId) => tracing.headSampler(traceId))),
      clock,
      traced: tracing !== undefined,
    });
    request.record = record;
    records.set(raw, record);
    reply.headers({ "x-request-id": record.requestId, "request-id": record.requestId });
    if (!spec?.unrecorded) logWhenClosed(record, raw, reply.raw, sinks);
  };
  const answerBroken = (error: Error, socket: Socket) =>
    answerBrokenRequest(error, socket, { sockets, records, sinks });
  const http = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: timeouts.requestHeadersTimeoutMs,
    connectionsCheckingInterval: CONNECTIONS_CHECK_MS,
    // Node would answer a missing one itself, in no envelope.
    requireHostHeader: false,
  };
  const app: FastifyInstance = Fastify({
    keepAliveTimeout: CONNECTION_IDLE_MS,
    requestTimeout: timeouts.requestTimeoutMs,
    maxRequestsPerSocket: MAX_REQUESTS_PER_SOCKET,
    // The table of routes says which ones take HEAD.
    exposeHeadRoutes: false,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 512 },
    ...(tls ? { https: { ...http, ...secured(tls, timeouts) } } : { http }),
    clientErrorHandler(error, socket) {
      if (error.code !== "ERR_HTTP_REQUEST_TIMEOUT") answerBroken(error, socket);
      else sockets.unlessWhole(socket, () => answerBroken(error, socket));
    },
    frameworkErrors: (error, request, reply) => {
      begin(request, reply as never);
      void sendError(request, reply as never, envelopeOf(pathOf(request.raw)), fromFastify(error));
    },
  });
  const { server } = app;
  if (server instanceof SecureServer) tls?.onChange((renewed) => server.setSecureContext(secureContext(renewed)));
  const sockets = new SocketTable(server as Server);
  // Node has answered it with 503: it came on a connection whose last answer has said that it closes.
  server.on("dropRequest", (_request, socket) => recordDropped(503, socket as Socket, sinks));
  app.decorateRequest("record");
  app.addHook("onRequest", atOnce(begin));
  return { app, sockets };
}

/** Returns what a server shows and accepts, of these texts: nothing older than TLS 1.2. */
function secureContext({ cert, key, ca }: Pems) {
  return { ...(cert && { cert }), ...(key && { key }), ...(ca && { ca }), minVersion: "TLSv1.2" as const };
}

/** Returns what makes a server speak TLS. Whether callers must show a certificate stays as it was at the start. */
function secured({ now }: FollowedPems, { requestHeadersTimeoutMs }: ReceiveTimeouts) {
  const asksCallers = now.ca !== undefined;
  const asked = { requestCert: asksCallers, rejectUnauthorized: asksCallers };
  return { ...secureContext(now), ...asked, handshakeTimeout: requestHeadersTimeoutMs };
}
