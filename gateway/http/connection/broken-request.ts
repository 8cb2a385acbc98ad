import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { ApiError, type Envelope, type ErrorCode } from "../../errors.ts";
import { errorBody } from "../../formats/error-envelope.ts";
import { envelopeOf } from "../../routes.ts";
import { newRequestId } from "../record/random-id.ts";
import { pathOf } from "./envelope.ts";
import type { SocketTable } from "./sockets.ts";

const REASON_PHRASE = {
  bad_request: "400 Bad Request",
  request_timeout: "408 Request Timeout",
  header_fields_too_large: "431 Request Header Fields Too Large",
} as const satisfies Partial<Record<ErrorCode, string>>;

const MESSAGE: Readonly<Record<keyof typeof REASON_PHRASE, string>> = {
  bad_request: "The request is not valid HTTP.",
  request_timeout: "The request took too long to arrive.",
  header_fields_too_large: "The header fields of the request are too large.",
};

const CODE_OF: Readonly<Record<string, keyof typeof REASON_PHRASE>> = {
  HPE_HEADER_OVERFLOW: "header_fields_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/** The start of a request line, which the bytes that were refused may begin with. */
const REQUEST_LINE = /^[A-Z]+ ([^ ?]{1,200})[ ?]/;

/** Returns the envelope of the request whose body was refused, or of the path, as far as the refused bytes tell one. */
function envelopeFor(request: IncomingMessage | undefined, packet: unknown): Envelope {
  if (request) return envelopeOf(pathOf(request));
  if (!(packet instanceof Uint8Array)) return "a";
  const path = REQUEST_LINE.exec(Buffer.from(packet.subarray(0, 256)).toString("latin1"))?.[1];
  return path === undefined ? "a" : envelopeOf(path);
}

/**
 * Answers bytes that Node's parser refused, and requests that took too long to arrive. They get no route, no hook and
 * no reply object; the connection closes, as nothing behind them can be trusted. While an answer is due or under way on
 * the connection nothing is written: it would be read as a part of that answer. The connection then closes behind it.
 * One on which nothing ever came has nobody who waits for an answer, and may be one of thousands.
 */
export function answerBrokenRequest(
  error: NodeJS.ErrnoException & { readonly rawPacket?: unknown },
  socket: Socket,
  sockets: SocketTable,
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
  const requestId = newRequestId();
  const envelope = envelopeFor(sockets.requestOn(socket), error.rawPacket);
  const body = JSON.stringify(errorBody(new ApiError(code, MESSAGE[code]), envelope, requestId));
  const head = [
    `HTTP/1.1 ${REASON_PHRASE[code]}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    `request-id: ${requestId}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}
