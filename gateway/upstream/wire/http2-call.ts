import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from "node:http2";
import { Metadata, status } from "@grpc/grpc-js";
import { endOf, endWithoutStatus, failedCall } from "./call-status.ts";
import { asBuffer, type WireCall, type WireEnd, type WireListener, type WireRequest } from "./generate-wire.ts";
import { framed, MessageCutter, prefixOf } from "./message-cutter.ts";

/** The size, in bytes, up to which a message is copied behind its prefix: one write is cheaper than two. */
const COPIED_BYTES = 64 * 1024;
/** The longest time that a timer of Node can wait, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What one call over HTTP/2 is made of. */
export type Http2CallOptions = {
  /** The stream of the call, whose headers are on their way. */
  readonly stream: ClientHttp2Stream;
  /** The call as it is to be put on the wire. */
  readonly request: WireRequest;
  /** Takes what comes of the call. */
  readonly listener: WireListener;
  /** The size of the largest message that may come, in bytes. */
  readonly maxMessageBytes: number;
  /** Returns whether the connection of the call is lost. */
  readonly isLost: () => boolean;
};

/** One Generate call on a stream of HTTP/2. */
export class Http2Call implements WireCall {
  readonly #stream: ClientHttp2Stream;
  readonly #listener: WireListener;
  readonly #maxMessageBytes: number;
  readonly #isLost: () => boolean;
  readonly #cutter: MessageCutter;
  readonly #deadline: NodeJS.Timeout;
  /** The status of HTTP; undefined until it has come. */
  #httpStatus: number | undefined;
  /** The end that the trailers tell of, while messages may wait behind a paused stream; undefined until they have come. */
  #told: WireEnd | undefined;
  #over = false;

  /** Follows the stream, and sends the message when it is its turn. */
  constructor({ stream, request, listener, maxMessageBytes, isLost }: Http2CallOptions) {
    this.#stream = stream;
    this.#listener = listener;
    this.#maxMessageBytes = maxMessageBytes;
    this.#isLost = isLost;
    this.#cutter = new MessageCutter(maxMessageBytes, (bytes, from, to) => {
      if (!this.#over) listener.message(bytes, from, to);
    });
    const leftMs = Math.min(MAX_TIMER_MS, Math.max(0, request.deadline - Date.now()));
    this.#deadline = setTimeout(() => this.#fail(status.DEADLINE_EXCEEDED, "Deadline exceeded"), leftMs);
    this.#deadline.unref();
    stream.on("response", (headers) => this.#response(headers));
    stream.on("data", (piece: Buffer) => this.#data(piece));
    stream.on("trailers", (trailers) => this.#trailers(trailers));
    stream.on("end", () => this.#read());
    // It says why, and "close" follows.
    stream.on("error", () => {});
    stream.on("close", () => this.#closed());
    const { message, handOver } = request;
    handOver.begin(() => this.#send(message, () => handOver.taken()));
  }

  /** Cancels the call, which ends it at once. */
  cancel(): void {
    this.#fail(status.CANCELLED, "Cancelled on client");
  }

  /** Stops reading: the node may fill the window of this one stream, and then has to wait. */
  pause(): void {
    this.#stream.pause();
  }

  /** Reads on. */
  resume(): void {
    this.#stream.resume();
  }

  #send(message: Uint8Array, onTaken: () => void): void {
    if (this.#over) return;
    if (message.byteLength <= COPIED_BYTES) {
      this.#stream.end(framed(message), onTaken);
      return;
    }
    this.#stream.write(prefixOf(message.byteLength));
    this.#stream.end(asBuffer(message), onTaken);
  }

  #response(headers: IncomingHttpHeaders & { readonly ":status"?: number | undefined }): void {
    this.#httpStatus = headers[":status"];
    // An answer may be its trailers alone.
    if (headers["grpc-status"] !== undefined) this.#trailers(headers);
  }

  #data(piece: Buffer): void {
    if (this.#over) return;
    // What is no answer of gRPC has no messages.
    if (this.#httpStatus !== 200) return;
    const fault = this.#cutter.take(piece);
    if (fault?.kind === "compressed")
      this.#fail(status.INTERNAL, "Received a message in an encoding that was not offered");
    else if (fault) {
      const sizes = `${fault.bytes} vs ${this.#maxMessageBytes}`;
      this.#fail(status.RESOURCE_EXHAUSTED, `Received message larger than max (${sizes})`);
    }
  }

  #trailers(trailers: IncomingHttpHeaders): void {
    const end = endOf(trailers);
    if (end?.error) this.#end(end);
    else this.#told = end;
  }

  /** All messages have been read. */
  #read(): void {
    if (this.#told && this.#cutter.isInside) this.#fail(status.INTERNAL, "The last message is not whole");
    else if (this.#told) this.#end(this.#told);
  }

  #closed(): void {
    this.#end(endWithoutStatus(this.#isLost(), this.#httpStatus, this.#stream.rstCode));
  }

  #fail(code: status, details: string): void {
    this.#end({ error: failedCall(code, details), trailers: this.#told?.trailers ?? new Metadata() });
  }

  #end(end: WireEnd): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#deadline);
    // A stream that is read to its end closes by itself.
    if (end.error) this.#stream.close(constants.NGHTTP2_CANCEL);
    this.#listener.ended(end);
  }
}
