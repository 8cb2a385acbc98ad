import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { WireCall, WireEnd, WireListener, WireRequest } from "./generate-wire.ts";
import type { Http2Connection } from "./http2/connection.ts";
import { ErrorCode } from "./http2/frames.ts";
import type { Headers } from "./http2/hpack.ts";
import type { Http2Stream, StreamListener } from "./http2/stream.ts";
import { framed, MessageCutter, prefixOf } from "./message-cutter.ts";

/** The size, in bytes, up to which a message is copied behind its prefix: one write is cheaper than two. */
const COPIED_BYTES = 64 * 1024;
const MAX_TIMER_MS = 2 ** 31 - 1;

export type Http2CallOptions = {
  readonly request: WireRequest;
  readonly listener: WireListener;
  readonly maxMessageBytes: number;
  readonly clock: Clock;
  readonly onSilent: (connection: Http2Connection) => void;
};

/** One Generate call over HTTP/2, which first waits for its stream. */
export class Http2Call implements WireCall, StreamListener {
  readonly #listener: WireListener;
  readonly #maxMessageBytes: number;
  readonly #onSilent: (connection: Http2Connection) => void;
  readonly #cutter: MessageCutter;
  readonly #stopDeadline: () => void;
  /** The request to send, released with its message, to which this is the only reference. */
  request: WireRequest | undefined;
  #stream: Http2Stream | undefined;
  #connection: Http2Connection | undefined;
  #paused = false;
  #httpStatus: number | undefined;
  /** The end by the trailers, while messages may wait behind a paused stream; undefined before the trailers. */
  #endByTrailers: WireEnd | undefined;
  #over = false;

  constructor(options: Http2CallOptions) {
    const { request, listener, maxMessageBytes, clock } = options;
    this.request = request;
    this.#listener = listener;
    this.#maxMessageBytes = maxMessageBytes;
    this.#onSilent = options.onSilent;
    this.#cutter = new MessageCutter(maxMessageBytes, listener);
    const leftMs = Math.min(MAX_TIMER_MS, Math.max(0, request.deadline - clock.wallMs()));
    this.#stopDeadline = clock.after(leftMs, () => this.fail(status.DEADLINE_EXCEEDED, "Deadline exceeded"));
  }

  get connected(): boolean {
    return this.#stream !== undefined;
  }

  /** Opens a stream on the connection with this header block, and sends the message at its turn. */
  begin(connection: Http2Connection, block: Buffer): void {
    this.#connection = connection;
    const stream = connection.open(block, this);
    this.#stream = stream;
    if (this.#paused) stream.pause();
    if (!this.request) return;
    const { message, handOver } = this.request;
    const { byteLength } = message;
    this.request = undefined;
    // The only closure here: another one that lives as long as the call would retain the message.
    handOver.begin(() => {
      const pieces = byteLength <= COPIED_BYTES ? [framed(message)] : [prefixOf(byteLength), message];
      stream.send(pieces, handOver.taken);
    });
  }

  cancel(why?: "silent"): void {
    if (why === "silent" && this.#connection && !this.#over) this.#onSilent(this.#connection);
    this.fail(status.CANCELLED, "Cancelled on client");
  }

  /** Ends the call with a status of the gateway, and resets the stream where there is one. */
  fail(code: status, details: string): void {
    this.#end({ error: failedCall(code, details), trailers: this.#endByTrailers?.trailers ?? new Metadata() });
  }

  pause(): void {
    this.#paused = true;
    this.#stream?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#stream?.resume();
  }

  headers(headers: Headers): void {
    this.#httpStatus = Number(headers[":status"]);
  }

  data(bytes: Buffer, from: number, to: number): void {
    // An answer that is not gRPC has no messages.
    if (this.#over || this.#httpStatus !== 200) return;
    const fault = this.#cutter.take(bytes, from, to);
    if (fault?.kind === "compressed")
      this.fail(status.INTERNAL, "Received a message in an encoding that was not offered");
    else if (fault) {
      const sizes = `${fault.bytes} vs ${this.#maxMessageBytes}`;
      this.fail(status.RESOURCE_EXHAUSTED, `Received message larger than max (${sizes})`);
    }
  }

  /** Takes the status of the call, behind which unread messages may wait. */
  trailers(trailers: Headers): void {
    const end = endOf(trailers);
    if (end?.error) this.#end(end);
    else this.#endByTrailers = end;
  }

  /** Takes the end of the answer: an incomplete message before it is dropped, as with grpc-js. */
  ended(): void {
    this.#end(this.#endByTrailers ?? endWithoutStatus(false, this.#httpStatus, 0));
  }

  broken(code: number, lost: boolean): void {
    this.#end(endWithoutStatus(lost, this.#httpStatus, code));
  }

  #end(end: WireEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#cutter.over = true;
    this.request = undefined;
    this.#stopDeadline();
    // Does nothing for a stream that has ended.
    this.#stream?.cancel();
    this.#listener.ended(end);
  }
}

/** The gRPC status of an answer with an HTTP status and no gRPC status. */
const BY_HTTP_STATUS: Readonly<Record<number, status>> = {
  400: status.INTERNAL,
  401: status.UNAUTHENTICATED,
  403: status.PERMISSION_DENIED,
  404: status.UNIMPLEMENTED,
  429: status.UNAVAILABLE,
  502: status.UNAVAILABLE,
  503: status.UNAVAILABLE,
  504: status.UNAVAILABLE,
};

/** The gRPC status of a reset stream, by the HTTP/2 error code. */
const BY_RESET: Readonly<Record<number, readonly [status, string]>> = {
  [ErrorCode.REFUSED_STREAM]: [status.UNAVAILABLE, "Stream refused by server"],
  [ErrorCode.CANCEL]: [status.CANCELLED, "Call cancelled"],
  [ErrorCode.ENHANCE_YOUR_CALM]: [status.RESOURCE_EXHAUSTED, "Bandwidth exhausted or memory limit exceeded"],
  [ErrorCode.INADEQUATE_SECURITY]: [status.PERMISSION_DENIED, "Protocol not secure enough"],
};

/** Returns the error of a call that ended with a gRPC status, in the form of grpc-js. */
export function failedCall(code: status, details: string, metadata = new Metadata()): ServiceError {
  return Object.assign(new Error(`${code} ${status[code]}: ${details}`), { code, details, metadata });
}

function endOf(trailers: Headers): WireEnd | undefined {
  const code = trailers["grpc-status"];
  if (code === undefined) return undefined;
  const metadata = Metadata.fromHttp2Headers(trailers);
  if (code === "0") return { error: undefined, trailers: metadata };
  const known = /^(?:[1-9]|1[0-6])$/.test(code) ? (Number(code) as status) : status.UNKNOWN;
  return { error: failedCall(known, detailsOf(trailers["grpc-message"]), metadata), trailers: metadata };
}

function endWithoutStatus(lost: boolean, httpStatus: number | undefined, resetCode: number): WireEnd {
  return { error: errorWithoutStatus(lost, httpStatus, resetCode), trailers: new Metadata() };
}

function errorWithoutStatus(lost: boolean, httpStatus: number | undefined, resetCode: number): ServiceError {
  if (lost) return failedCall(status.UNAVAILABLE, "Connection dropped");
  if (httpStatus !== undefined && httpStatus !== 200)
    return failedCall(BY_HTTP_STATUS[httpStatus] ?? status.UNKNOWN, `Received HTTP status code ${httpStatus}`);
  const [code, details] = BY_RESET[resetCode] ?? [status.INTERNAL, `Received RST_STREAM with code ${resetCode}`];
  return failedCall(code, details);
}

/** Returns the percent-decoded message of a status; unchanged where it is badly encoded. */
function detailsOf(message: string | undefined): string {
  if (message === undefined) return "";
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
