import { ErrorCode, FrameType, numberFrame } from "./frames.ts";
import { type Headers, isWellFormed } from "./header-reader.ts";
import { HeldBytes } from "./held-bytes.ts";
import type { Outbox } from "./outbox.ts";

/**
 * The window of each stream, in bytes: what the other side may send ahead of a reader that is slow. It is some thousand
 * deltas, and all of them are kept here.
 */
export const STREAM_WINDOW_BYTES = 64 * 1024;
/** The most bytes that are read at once of what a paused reader has not taken: it may pause again behind any of them. */
const READ_BYTES = 4 * 1024;
/** The most interim answers of a stream. */
const MAX_INTERIM_ANSWERS = 16;

/** Takes what comes on one stream. Nothing is called behind the end. */
export type StreamListener = {
  /** Takes the headers that an answer begins with. */
  headers(headers: Headers): void;
  /** Takes bytes of the answer, from `from` to before `to`. They hold for the time of the call. */
  data(bytes: Buffer, from: number, to: number): void;
  /** Takes the headers that an answer ends with. They may be the first, and may come while the reader is paused. */
  trailers(headers: Headers): void;
  /** Takes the end of an answer, behind all its bytes. */
  ended(): void;
  /** Takes the end of a stream that is over before its answer has ended: reset with `code`, or `lost` with its connection. */
  broken(code: number, lost: boolean): void;
};

/** One stream of a connection, from the answer's side: it keeps the window, and what a paused reader has not taken. */
export class Http2Stream {
  readonly #listener: StreamListener;
  readonly #outbox: Outbox;
  /** Ends the stream on its connection, and tells the other side with this code. */
  readonly #leave: (stream: Http2Stream, code: number) => void;
  #id = 0;
  /** What is to be sent once the stream has begun. */
  #message: { readonly pieces: readonly Uint8Array[]; readonly onTaken: () => void } | undefined;
  /** What the other side may still send, in bytes. */
  #window = STREAM_WINDOW_BYTES;
  /** What was read and not given back to the window yet, in bytes. */
  #readBytes = 0;
  #paused = false;
  /** What has come while the reader was paused. */
  #held = new HeldBytes();
  #interimAnswers = 0;
  #answered = false;
  /** Whether the other side has said all. */
  #complete = false;
  #over = false;

  constructor(listener: StreamListener, outbox: Outbox, leave: (stream: Http2Stream, code: number) => void) {
    this.#listener = listener;
    this.#outbox = outbox;
    this.#leave = leave;
  }

  /** The id of the stream; 0 until it has begun on the connection. */
  get id(): number {
    return this.#id;
  }

  /** Notes that the stream has begun on the connection, with this id. */
  begun(id: number): void {
    this.#id = id;
    const message = this.#message;
    this.#message = undefined;
    if (message) this.send(message.pieces, message.onTaken);
  }

  /** Sends the message of the stream, and with it all that is said on it. `onTaken` is called when the system has it. */
  send(pieces: readonly Uint8Array[], onTaken: () => void): void {
    if (this.#over || this.#complete) return;
    if (this.#id === 0) this.#message = { pieces, onTaken };
    else this.#outbox.send(this.#id, pieces, onTaken);
  }

  /** Gives the stream up, and tells the other side. Nothing more is heard of it. */
  cancel(): void {
    if (this.#over) return;
    this.#over = true;
    this.#held = new HeldBytes();
    this.#message = undefined;
    this.#leave(this, ErrorCode.CANCEL);
  }

  /** Stops reading: the other side may fill the window of this one stream, and then has to wait. */
  pause(): void {
    this.#paused = true;
  }

  /** Reads on, beginning in the next turn. */
  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    process.nextTick(() => this.#readHeld());
  }

  /** Takes headers of the other side. Returns the code of what is wrong with them; undefined where nothing is. */
  headersCame(headers: Headers, isLast: boolean): number | undefined {
    if (this.#over) return undefined;
    if (!isLast && this.#answered) return ErrorCode.PROTOCOL_ERROR;
    // An interim answer has no field that a call of gRPC could want, and none of them is looked at.
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

  /**
   * Takes bytes of the other side, which count as `counted`: what they were padded with counts, too. Returns the code of
   * what is wrong with them; undefined where nothing is.
   */
  dataCame(bytes: Buffer, from: number, to: number, counted: number): number | undefined {
    if (this.#over) return undefined;
    if (!this.#answered) return ErrorCode.PROTOCOL_ERROR;
    this.#window -= counted;
    if (this.#window < 0) return ErrorCode.FLOW_CONTROL_ERROR;
    const padding = counted - (to - from);
    if (this.#paused || this.#held.length > 0) {
      if (from < to) this.#held.add(bytes, from, to, STREAM_WINDOW_BYTES);
      this.#giveBack(padding);
      return undefined;
    }
    if (from < to) this.#listener.data(bytes, from, to);
    this.#giveBack(counted);
    return undefined;
  }

  /** Notes that the other side has said all. */
  completed(): void {
    this.#complete = true;
    this.#endWhenRead();
  }

  /** Takes the end that something else has given the stream before it was over. */
  broken(code: number, lost: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.#held = new HeldBytes();
    this.#message = undefined;
    this.#listener.broken(code, lost);
  }

  #readHeld(): void {
    while (!this.#over && !this.#paused && this.#held.length > 0) {
      const piece = this.#held.take(READ_BYTES);
      this.#listener.data(piece, 0, piece.length);
      this.#giveBack(piece.length);
    }
    this.#endWhenRead();
  }

  #endWhenRead(): void {
    if (!this.#complete || this.#over || this.#paused || this.#held.length > 0) return;
    this.#over = true;
    this.#listener.ended();
  }

  /** Lets the other side send as much as was read, once that is half of the window. */
  #giveBack(bytes: number): void {
    this.#readBytes += bytes;
    if (this.#readBytes < STREAM_WINDOW_BYTES / 2 || this.#complete || this.#over) return;
    this.#outbox.add(numberFrame(FrameType.WINDOW_UPDATE, this.#id, this.#readBytes));
    this.#window += this.#readBytes;
    this.#readBytes = 0;
  }
}
