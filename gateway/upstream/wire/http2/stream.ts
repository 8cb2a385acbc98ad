import { ErrorCode, FrameType, numberFrame } from "./frames.ts";
import { HeldBytes } from "./held-bytes.ts";
import { type Headers, isWellFormed } from "./hpack.ts";
import type { Outbox } from "./outbox.ts";

/** The window of each stream, in bytes: what the peer may send ahead of a slow reader. */
export const STREAM_WINDOW_BYTES = 64 * 1024;
/** The most bytes of a paused reader's backlog delivered at once: it may pause again after any of them. */
const READ_BYTES = 4 * 1024;
const MAX_INTERIM_ANSWERS = 16;

/** Receives the events of one stream. No method is called after the end. */
export type StreamListener = {
  headers(headers: Headers): void;
  /** Takes bytes of the answer, from `from` to before `to`. They are valid only during the call. */
  data(bytes: Buffer, from: number, to: number): void;
  /** Takes the trailers of the answer. They may be its only headers, and may come while the reader is paused. */
  trailers(headers: Headers): void;
  ended(): void;
  /** Takes the end of a stream before that of its answer: reset with `code`, or `lost` with its connection. */
  broken(code: number, lost: boolean): void;
};

/** One stream of a connection, on the receiving side: it holds the window, and the backlog of a paused reader. */
export class Http2Stream {
  readonly #listener: StreamListener;
  readonly #outbox: Outbox;
  readonly #leave: (stream: Http2Stream, code: number) => void;
  id = 0;
  #message: { readonly pieces: readonly Uint8Array[]; readonly onTaken: () => void } | undefined;
  #window = STREAM_WINDOW_BYTES;
  #readBytes = 0;
  #paused = false;
  /** The backlog of a paused reader; undefined where there is none. */
  #held: HeldBytes | undefined;
  #interimAnswers = 0;
  #answered = false;
  #complete = false;
  #over = false;

  constructor(listener: StreamListener, outbox: Outbox, leave: (stream: Http2Stream, code: number) => void) {
    this.#listener = listener;
    this.#outbox = outbox;
    this.#leave = leave;
  }

  begun(id: number): void {
    this.id = id;
    const message = this.#message;
    this.#message = undefined;
    if (message) this.send(message.pieces, message.onTaken);
  }

  /** Sends the message of the stream, and its end. `onTaken` is called when the system has taken it. */
  send(pieces: readonly Uint8Array[], onTaken: () => void): void {
    if (this.#over || this.#complete) return;
    if (this.id === 0) this.#message = { pieces, onTaken };
    else this.#outbox.send(this.id, pieces, onTaken);
  }

  cancel(): void {
    if (this.#over) return;
    this.#over = true;
    this.#held = undefined;
    this.#message = undefined;
    this.#leave(this, ErrorCode.CANCEL);
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    process.nextTick(() => this.#readHeld());
  }

  /** Takes headers from the peer. Returns the error code; undefined where they are valid. */
  onHeaders(headers: Headers, isLast: boolean): number | undefined {
    if (this.#over) return undefined;
    if (!isLast && this.#answered) return ErrorCode.PROTOCOL_ERROR;
    // An interim answer has no field that a gRPC call needs, and is ignored.
    if (!isLast && headers[":status"]?.startsWith("1")) {
      this.#interimAnswers += 1;
      return this.#interimAnswers > MAX_INTERIM_ANSWERS ? ErrorCode.ENHANCE_YOUR_CALM : undefined;
    }
    if (!isWellFormed(headers)) return ErrorCode.PROTOCOL_ERROR;
    if (this.#answered) this.#listener.trailers(headers);
    else if (headers[":status"] === undefined) return ErrorCode.PROTOCOL_ERROR;
    else {
      this.#answered = true;
      this.#listener.headers(headers);
      if (isLast && !this.#over) this.#listener.trailers(headers);
    }
    return undefined;
  }

  /** Takes bytes, which count as `counted` with padding. Returns the error code, if any. */
  onData(bytes: Buffer, from: number, to: number, counted: number): number | undefined {
    if (this.#over) return undefined;
    if (!this.#answered) return ErrorCode.PROTOCOL_ERROR;
    this.#window -= counted;
    if (this.#window < 0) return ErrorCode.FLOW_CONTROL_ERROR;
    const padding = counted - (to - from);
    if (this.#paused || this.#held) {
      if (from < to) {
        this.#held ??= new HeldBytes();
        this.#held.add(bytes, from, to, STREAM_WINDOW_BYTES);
      }
      this.#giveBack(padding);
      return undefined;
    }
    if (from < to) this.#listener.data(bytes, from, to);
    this.#giveBack(counted);
    return undefined;
  }

  completed(): void {
    this.#complete = true;
    this.#endWhenRead();
  }

  broken(code: number, lost: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.#held = undefined;
    this.#message = undefined;
    this.#listener.broken(code, lost);
  }

  #readHeld(): void {
    while (!this.#over && !this.#paused && this.#held) {
      const piece = this.#held.take(READ_BYTES);
      if (this.#held.length === 0) this.#held = undefined;
      this.#listener.data(piece, 0, piece.length);
      this.#giveBack(piece.length);
    }
    this.#endWhenRead();
  }

  #endWhenRead(): void {
    if (!this.#complete || this.#over || this.#paused || this.#held) return;
    this.#over = true;
    this.#listener.ended();
  }

  /** Returns the read bytes to the peer's window, once they are half of it. */
  #giveBack(bytes: number): void {
    this.#readBytes += bytes;
    if (this.#readBytes < STREAM_WINDOW_BYTES / 2 || this.#complete || this.#over) return;
    this.#outbox.add(numberFrame(FrameType.WINDOW_UPDATE, this.id, this.#readBytes));
    this.#window += this.#readBytes;
    this.#readBytes = 0;
  }
}
