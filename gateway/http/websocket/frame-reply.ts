import type { ApiError } from "../../errors.ts";
import { errorObjectA, statusOf } from "../../formats/error-envelope.ts";
import { dataOf } from "../../formats/sse.ts";
import type { StreamTarget } from "../answer/sse-stream.ts";
import { retryHeaders } from "../connection/envelope.ts";
import type { ReplyUnderWay } from "../record/request-context.ts";

/** Where the frames of a reply go: a socket, which writes those of one call together. */
export type FrameSink = {
  readonly writableNeedDrain: boolean;
  once(event: "drain", listener: () => void): unknown;
  send(frames: readonly Buffer[]): void;
  /** Ends the socket at once: its client reads nothing. */
  cut(): void;
};

/** The reply to one frame of a WebSocket. The frames that it is written as are the data of a stream's events. */
export class FrameReply implements ReplyUnderWay, StreamTarget {
  readonly socket = null;
  readonly shouldKeepAlive = false;
  chunkedEncoding = false;
  destroyed = false;
  headersSent = false;
  statusCode = 200;
  writableFinished = false;
  bytesOut = 0;
  readonly #sink: FrameSink;
  /** Fields that each event ends with; empty on the default lane. */
  readonly #echo: string;
  readonly #onClose: (() => void)[] = [];

  constructor(sink: FrameSink, streamId: string | undefined) {
    this.#sink = sink;
    this.#echo = streamId === undefined ? "" : `,"stream_id":${JSON.stringify(streamId)}}`;
  }

  get writableNeedDrain(): boolean {
    return this.#sink.writableNeedDrain;
  }

  on(_event: "close", listener: () => void): void {
    this.#onClose.push(listener);
  }

  once(event: "drain", listener: () => void): void {
    this.#sink.once(event, listener);
  }

  getHeader(): undefined {}

  writeHead(): void {
    this.headersSent = true;
  }

  flushHeaders(): void {}

  /** Writes whole frames of an event stream. */
  write(text: string): boolean {
    this.#send(dataOf(text));
    return !this.#sink.writableNeedDrain;
  }

  /** Answers with an error, in the form that clients of sockets act on: without a status they ignore it. */
  refuse(error: ApiError, requestId: string): void {
    if (this.destroyed) return;
    const status = statusOf(error, "a");
    this.statusCode = status;
    this.headersSent = true;
    const headers = { ...retryHeaders(error, status), "x-request-id": requestId };
    this.#send([JSON.stringify({ type: "error", status, error: errorObjectA(error), headers })]);
    this.end();
  }

  end(): void {
    if (this.destroyed) return;
    this.writableFinished = true;
    this.close();
  }

  destroy(): void {
    this.#sink.cut();
  }

  /** The reply has ended, or its client has left. */
  close(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    for (const listener of this.#onClose.splice(0)) listener();
  }

  #send(texts: readonly string[]): void {
    const echo = this.#echo;
    const frames = texts.map((text) => Buffer.from(echo === "" ? text : text.slice(0, -1) + echo));
    for (const { length } of frames) this.bytesOut += length;
    this.#sink.send(frames);
  }
}
