import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { ApiError, type Envelope, type ErrorCode } from "../../errors.ts";
import { errorBody, statusOf } from "../../formats/error-envelope.ts";
import { envelopeOf } from "../../routes.ts";
import { type RecordSinks, writeDown } from "../record/access-log.ts";
import { clientAddress } from "../record/client-address.ts";
import { NO_ROUTE, RequestRecord } from "../record/request-record.ts";
import { traceContextOf } from "../record/trace-context.ts";
import { pathOf } from "./envelope.ts";
import { endConnection, type SocketTable } from "./sockets.ts";

const MESSAGE = {
  bad_request: "The request is not valid HTTP.",
  request_timeout: "The request took too long to arrive.",
  header_fields_too_large: "The header fields of the request are too large.",
} as const satisfies Partial<Record<ErrorCode, string>>;

const CODE_OF: Readonly<Record<string, keyof typeof MESSAGE>> = {
  HPE_HEADER_OVERFLOW: "header_fields_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/** A request line at the start of the refused bytes. */
const REQUEST_LINE = /^[A-Z]+ ([^ ?]{1,200})[ ?]/;

/** Returns the envelope of the request whose body was refused, or of the path in the refused bytes, if there is one. */
function envelopeFor(request: IncomingMessage | undefined, packet: unknown): Envelope {
  if (request) return envelopeOf(pathOf(request));
  if (!(packet instanceof Uint8Array)) return "a";
  const path = REQUEST_LINE.exec(Buffer.from(packet.subarray(0, 256)).toString("latin1"))?.[1];
  return path === undefined ? "a" : envelopeOf(path);
}

export type BrokenRequestDeps = {
  readonly sockets: SocketTable;
  /** Records of requests whose head was read. */
  readonly records: { get(request: IncomingMessage): RequestRecord | undefined };
  readonly sinks: RecordSinks;
};

/**
 * Answers bytes that Node's parser refused, and requests that took too long to arrive. They have no route, no hook and
 * no reply object; the connection closes, because the following bytes cannot be trusted. While a reply is due or
 * running on the connection no byte is written: it would be read as a part of that reply; the connection closes after
 * it. A connection on which no byte ever arrived is closed without a reply: no caller waits, and there may be
 * thousands.
 */
export function answerBrokenRequest(
  error: NodeJS.ErrnoException & { readonly rawPacket?: unknown },
  socket: Socket,
  { sockets, records, sinks }: BrokenRequestDeps,
): void {
  const isSilent = error.code === "ERR_HTTP_REQUEST_TIMEOUT" && socket.bytesRead === 0;
  if (error.code === "ECONNRESET" || !socket.writable || isSilent) {
    socket.destroy();
    return;
  }
  if (!sockets.mayAnswer(socket)) {
    sockets.closeWhenDone(socket);
    return;
  }
  const code = CODE_OF[error.code ?? ""] ?? "bad_request";
  const request = sockets.requestOn(socket);
  const known = request && records.get(request);
  const record = known ?? unroutedRecord(sinks);
  const refusal = new ApiError(code, MESSAGE[code]);
  const envelope = envelopeFor(request, error.rawPacket);
  const status = statusOf(refusal, envelope);
  const text = answerText(status, JSON.stringify(errorBody(refusal, envelope, record.requestId)), record.requestId);
  endConnection(socket, text);
  // A sender that ends within a request has usually left, and does not read the reply.
  if (error.code === "HPE_INVALID_EOF_STATE") return;
  record.answeredPast(status, refusal.detail);
  if (!known) writeDownUnrouted(record, socket, Buffer.byteLength(text), sinks);
}

/** Logs a request that Node has answered with the status `code`, before any route. */
export function recordDropped(code: number, socket: Socket, sinks: RecordSinks): void {
  const record = unroutedRecord(sinks);
  record.answeredPast(code, "server_is_overloaded");
  writeDownUnrouted(record, socket, 0, sinks);
}

function unroutedRecord({ clock }: RecordSinks): RequestRecord {
  return new RequestRecord({ labels: NO_ROUTE, trace: traceContextOf({}), clock, tracing: undefined });
}

function writeDownUnrouted(record: RequestRecord, socket: Socket, bytesOut: number, sinks: RecordSinks): void {
  const address = clientAddress(socket.remoteAddress, undefined, 0);
  writeDown(record.closed(0, true), { method: undefined, address, headers: {}, bytesOut }, sinks);
}

/** Returns a whole reply in HTTP/1.1, for a connection without a reply object. */
export function answerText(
  status: number,
  body: string,
  requestId: string,
  headers: Readonly<Record<string, string>> = {},
): string {
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    `request-id: ${requestId}`,
    `connection: ${headers.upgrade === undefined ? "close" : "upgrade, close"}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}
