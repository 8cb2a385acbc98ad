import { Metadata, status } from "@grpc/grpc-js";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { endOf, endWithoutStatus, failedCall } from "./call-status.ts";
import type { WireCall, WireEnd, WireListener, WireRequest } from "./generate-wire.ts";
import type { Http2Connection } from "./http2/connection.ts";
import type { Headers } from "./http2/header-reader.ts";
import type { Http2Stream, StreamListener } from "./http2/stream.ts";
import { framed, MessageCutter, prefixOf } from "./message-cutter.ts";

/** The size, in bytes, up to which a message is copied behind its prefix: one write is cheaper than two. */
const COPIED_BYTES = 64 * 1024;
/** The longest time that a timer can wait, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What one call over HTTP/2 is made of. */
export type Http2CallOptions = {
  /** The call as it is to be put on the wire. */
  readonly request: WireRequest;
  /** Takes what comes of the call. */
  readonly listener: WireListener;
  /** The size of the largest message that may come, in bytes. */
  readonly maxMessageBytes: number;
  /** The clock by which the deadline of the call is kept. */
  readonly clock: Clock;
  /** Called with the connection of the call when it is given up because it said nothing. */
  readonly onSilent: (connection: Http2Connection) => void;
};

/** One Generate call over HTTP/2, which waits for its stream first. */
export class Http2Call implements WireCall, StreamListener {
  readonly #listener: WireListener;
  readonly #maxMessageBytes: number;
  readonly #onSilent: (connection: Http2Connection) => void;
  readonly #cutter: MessageCutter;
  readonly #stopDeadline: () => void;
  /** What is to be sent; let go with the message, which nobody else keeps. */
  #request: WireRequest | undefined;
  /** The stream of the call; undefined while the call waits for its connection. */
  #stream: Http2Stream | undefined;
  #connection: Http2Connection | undefined;
  #paused = false;
  /** The status of HTTP; undefined until it has come. */
  #httpStatus: number | undefined;
  /** The end that the trailers tell of, while messages may wait behind a paused stream; undefined until they have come. */
  #told: WireEnd | undefined;
  #over = false;

  /** Makes a call that has no stream yet. Its deadline counts from now on. */
  constructor(options: Http2CallOptions) {
    const { request, listener, maxMessageBytes, clock } = options;
    this.#request = request;
    this.#listener = listener;
    this.#maxMessageBytes = maxMessageBytes;
    this.#onSilent = options.onSilent;
    this.#cutter = new MessageCutter(maxMessageBytes, (bytes, from, to) => {
      if (!this.#over) listener.message(bytes, from, to);
    });
    const leftMs = Math.min(MAX_TIMER_MS, Math.max(0, request.deadline - clock.wallMs()));
    this.#stopDeadline = clock.after(leftMs, () => this.fail(status.DEADLINE_EXCEEDED, "Deadline exceeded"));
  }

  /** Whether the call has its stream, which it gets on a connection that stands. */
  get connected(): boolean {
    return this.#stream !== undefined;
  }

  /** What is still to be sent; undefined once the message has gone, or the call has ended. */
  get request(): WireRequest | undefined {
    return this.#request;
  }

  /** Opens a stream on the connection with this block of headers, and sends the message when it is its turn. */
  begin(connection: Http2Connection, block: Buffer): void {
    this.#connection = connection;
    const stream = connection.open(block, this);
    this.#stream = stream;
    if (this.#paused) stream.pause();
    this.#handOver(stream);
  }

  /** Cancels the call, which ends it at once. */
  cancel(why?: "silent"): void {
    if (why === "silent" && this.#connection && !this.#over) this.#onSilent(this.#connection);
    this.fail(status.CANCELLED, "Cancelled on client");
  }

  /** Ends the call with a status of our own, and tells the node where it knows of the call. */
  fail(code: status, details: string): void {
    this.#end({ error: failedCall(code, details), trailers: this.#told?.trailers ?? new Metadata() });
  }

  /** Stops reading: the node may fill the window of this one stream, and then has to wait. */
  pause(): void {
    this.#paused = true;
    this.#stream?.pause();
  }

  /** Reads on. */
  resume(): void {
    this.#paused = false;
    this.#stream?.resume();
  }

  /** Has the message sent. It has a scope to itself: what follows the stream would else keep the message, too. */
  #handOver(stream: Http2Stream): void {
    if (!this.#request) return;
    const { message, handOver } = this.#request;
    this.#request = undefined;
    handOver.begin(() => this.#send(stream, message, () => handOver.taken()));
  }

  #send(stream: Http2Stream, message: Uint8Array, onTaken: () => void): void {
    if (this.#over) return;
    if (message.byteLength <= COPIED_BYTES) stream.send([framed(message)], onTaken);
    else stream.send([prefixOf(message.byteLength), message], onTaken);
  }

  /** Takes the headers of the answer. */
  headers(headers: Headers): void {
    this.#httpStatus = Number(headers[":status"]);
  }

  /** Takes a part of the answer. It runs on the path of every delta. */
  data(bytes: Buffer, from: number, to: number): void {
    // What is no answer of gRPC has no messages.
    if (this.#over || this.#httpStatus !== 200) return;
    const fault = this.#cutter.take(bytes, from, to);
    if (fault?.kind === "compressed")
      this.fail(status.INTERNAL, "Received a message in an encoding that was not offered");
    else if (fault) {
      const sizes = `${fault.bytes} vs ${this.#maxMessageBytes}`;
      this.fail(status.RESOURCE_EXHAUSTED, `Received message larger than max (${sizes})`);
    }
  }

  /** Takes the status of the call, behind which messages may wait that were not read. */
  trailers(trailers: Headers): void {
    const end = endOf(trailers);
    if (end?.error) this.#end(end);
    else this.#told = end;
  }

  /** Takes the end of the answer: half a message before it is no message, as with grpc-js. */
  ended(): void {
    this.#end(this.#told ?? endWithoutStatus(false, this.#httpStatus, 0));
  }

  /** Takes the end of the stream before that of the answer. */
  broken(code: number, lost: boolean): void {
    this.#end(endWithoutStatus(lost, this.#httpStatus, code));
  }

  #end(end: WireEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#request = undefined;
    this.#stopDeadline();
    // Of one that is over this tells nobody.
    this.#stream?.cancel();
    this.#listener.ended(end);
  }
}
