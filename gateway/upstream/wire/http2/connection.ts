import type { Socket } from "node:net";
import {
  DEFAULT_MAX_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  ErrorCode,
  Flag,
  FrameCutter,
  FrameType,
  goawayFrame,
  headerFrames,
  MAX_31_BITS,
  numberFrame,
  type OnFrame,
  PREFACE,
  pingFrame,
  Setting,
  settingsFrame,
} from "./frames.ts";
import { HeaderReader } from "./hpack.ts";
import { Outbox } from "./outbox.ts";
import { Http2Stream, STREAM_WINDOW_BYTES, type StreamListener } from "./stream.ts";

/** The window of the connection, in bytes. It is replenished as bytes arrive, whether read or not. */
const CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024;
const MAX_HEADER_LIST_BYTES = 64 * 1024;
/** The most GOAWAY frames of a connection, each compared with all its streams; two are usual. */
const MAX_GOAWAYS = 16;
/** The most unsent bytes when a frame requires an answer: beyond it the peer does not read answers. */
const MAX_WAITING_BYTES = 1024 * 1024;

/**
 * The resets of streams that the peer accepts at once, and per second after that: the default of nghttp2, which Node's
 * servers use. A peer that gets more considers it an attack and ends the connection, with all its calls.
 */
const RESET_BURST = 1_000;
const RESETS_PER_SECOND = 33;
/** The resets kept in reserve for streams that end early by a fault. */
const SPARE_RESETS = 50;

export type ConnectionListener = {
  /** The peer has sent its settings: it speaks HTTP/2, and its stream limit is known. */
  standing(): void;
  /** The peer takes no new streams, with this error code and debug text. */
  goingAway(code: number, words: string): void;
};

type OpenBlock = { readonly streamId: number; readonly isLast: boolean; readonly pieces: Buffer[]; bytes: number };

/**
 * The client's side of an HTTP/2 connection (RFC 9113), limited to the needs of gRPC calls: no streams begun by the
 * peer, no priorities, and no object for a frame. The bytes of one tick of the event loop are read at once. An error on
 * a stream ends that stream, and an error in the framing the connection, as nothing behind it can be trusted.
 */
export class Http2Connection {
  readonly #socket: Socket;
  readonly #listener: ConnectionListener;
  readonly #outbox: Outbox;
  readonly #headers = new HeaderReader(MAX_HEADER_LIST_BYTES);
  readonly #streams = new Map<number, Http2Stream>();
  /** The streams that wait, with their headers, for others to end: the peer's limit is reached. */
  readonly #waiting = new Map<Http2Stream, Buffer>();
  readonly #pings: (() => void)[] = [];
  #openBlock: OpenBlock | undefined;
  #nextId = 1;
  #maxStreams = Number.POSITIVE_INFINITY;
  #standing = false;
  #goingAway = false;
  #goaways = 0;
  #closed = false;
  /** The resets that the peer accepts at the moment beside it, in milliseconds of the monotonic clock. */
  #resets = RESET_BURST;
  #resetsAtMs = performance.now();
  #readBytes = 0;

  /** Speaks HTTP/2 over a socket after `begin`; the owner passes received bytes to `take`. */
  constructor(socket: Socket, listener: ConnectionListener) {
    this.#socket = socket;
    this.#listener = listener;
    this.#outbox = new Outbox(socket);
    socket.once("close", () => this.#lost());
  }

  begin(): void {
    this.#outbox.add(PREFACE);
    this.#outbox.add(
      settingsFrame([
        [Setting.ENABLE_PUSH, 0],
        [Setting.INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES],
        [Setting.MAX_HEADER_LIST_SIZE, MAX_HEADER_LIST_BYTES],
      ]),
    );
    const more = CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES;
    this.#outbox.add(numberFrame(FrameType.WINDOW_UPDATE, 0, more));
  }

  /** Whether new streams can be opened: neither side has closed the connection, and there are ids left. */
  get usable(): boolean {
    return !this.#closed && !this.#goingAway && this.#nextId <= MAX_31_BITS;
  }

  /** Whether, with one more stream, the peer would accept the resets of all at once. */
  get hasCapacity(): boolean {
    const nowMs = performance.now();
    const more = ((nowMs - this.#resetsAtMs) * RESETS_PER_SECOND) / 1_000;
    this.#resets = Math.min(RESET_BURST, this.#resets + more);
    this.#resetsAtMs = nowMs;
    return this.#streams.size < this.#resets - SPARE_RESETS;
  }

  retire(): void {
    this.#goingAway = true;
    this.#closeWhenDone();
  }

  /** Opens a stream with this header block, or queues it where the peer's limit is reached. */
  open(block: Buffer, listener: StreamListener): Http2Stream {
    const stream = new Http2Stream(listener, this.#outbox, this.#leave);
    this.#waiting.set(stream, block);
    this.#beginWaiting();
    return stream;
  }

  ping(onAnswer: () => void): void {
    this.#pings.push(onAnswer);
    this.#outbox.add(pingFrame(Buffer.alloc(8), 0));
  }

  /** Takes the bytes read from the socket. Their memory may be reused after the call. */
  take(bytes: Buffer): void {
    if (!this.#closed && !this.#cutter.take(bytes)) this.#fail(ErrorCode.FRAME_SIZE_ERROR);
  }

  #beginWaiting(): void {
    for (const [stream, block] of this.#waiting) {
      if (this.#streams.size >= this.#maxStreams) return;
      this.#waiting.delete(stream);
      if (!this.usable) {
        stream.broken(ErrorCode.REFUSED_STREAM, this.#closed);
        continue;
      }
      const id = this.#nextId;
      this.#nextId += 2;
      this.#streams.set(id, stream);
      this.#outbox.add(headerFrames(block, id, this.#outbox.maxFrameBytes));
      this.#outbox.open(id);
      stream.begun(id);
    }
  }

  #forget(streamId: number): void {
    this.#streams.delete(streamId);
    if (this.#waiting.size > 0) this.#beginWaiting();
    if (this.#goingAway) this.#closeWhenDone();
  }

  /** Closes a connection kept open for running streams, once they have ended. */
  #closeWhenDone(): void {
    if (this.#streams.size === 0) this.#socket.destroy();
  }

  readonly #leave = (stream: Http2Stream, code: number): void => {
    if (this.#waiting.delete(stream) || !this.#streams.has(stream.id)) return;
    this.#reset(stream.id, code);
  };

  #reset(streamId: number, code: number): void {
    this.#outbox.close(streamId);
    this.#sendReset(streamId, code);
    this.#forget(streamId);
  }

  #sendReset(streamId: number, code: number): void {
    this.#resets -= 1;
    this.#outbox.add(numberFrame(FrameType.RST_STREAM, streamId, code));
  }

  #fail(code: number): false {
    if (this.#closed) return false;
    // Before any further call: nothing behind this can be parsed.
    this.#closed = true;
    this.#socket.write(goawayFrame(code));
    this.#socket.destroy();
    return false;
  }

  #lost(): void {
    this.#closed = true;
    const streams = [...this.#streams.values(), ...this.#waiting.keys()];
    this.#streams.clear();
    this.#waiting.clear();
    for (const stream of streams) stream.broken(ErrorCode.NO_ERROR, true);
  }

  /** Takes one frame. Runs for every delta. Returns whether to continue. */
  readonly #frame: OnFrame = (type, flags, streamId, bytes, from, to) => {
    if (type === FrameType.DATA && this.#standing && !this.#openBlock)
      return this.#data(flags, streamId, bytes, from, to);
    if (this.#openBlock ? type !== FrameType.CONTINUATION : type === FrameType.CONTINUATION)
      return this.#fail(ErrorCode.PROTOCOL_ERROR);
    if (!this.#standing && type !== FrameType.SETTINGS) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    switch (type) {
      case FrameType.HEADERS:
        return this.#headersBegin(flags, streamId, bytes, from, to);
      case FrameType.CONTINUATION:
        return this.#headersGoOn(flags, streamId, bytes, from, to);
      case FrameType.RST_STREAM:
        return this.#onReset(streamId, bytes, from, to);
      case FrameType.SETTINGS:
        return this.#settings(flags, streamId, bytes, from, to);
      case FrameType.PING:
        return this.#onPing(flags, streamId, bytes, from, to);
      case FrameType.GOAWAY:
        return this.#onGoaway(streamId, bytes, from, to);
      case FrameType.WINDOW_UPDATE:
        return this.#widen(streamId, bytes, from, to);
      case FrameType.PUSH_PROMISE:
        return this.#fail(ErrorCode.PROTOCOL_ERROR);
      default:
        return true;
    }
  };

  readonly #cutter = new FrameCutter(DEFAULT_MAX_FRAME_BYTES, this.#frame);

  #data(flags: number, streamId: number, bytes: Buffer, from: number, to: number): boolean {
    const stream = this.#streams.get(streamId);
    if (!stream && !this.#began(streamId)) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    const padding = flags & Flag.PADDED ? paddingOf(bytes, from, to) : 0;
    if (padding === undefined) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    const counted = to - from;
    // Bytes of ended streams count, too: else the window would drain.
    this.#readBytes += counted;
    if (this.#readBytes >= CONNECTION_WINDOW_BYTES / 4) {
      this.#outbox.add(numberFrame(FrameType.WINDOW_UPDATE, 0, this.#readBytes));
      this.#readBytes = 0;
    }
    if (!stream) return true;
    const begin = padding > 0 ? from + 1 : from;
    const wrong = stream.onData(bytes, begin, to - Math.max(0, padding - 1), counted);
    const isLast = (flags & Flag.END_STREAM) !== 0;
    return (wrong === undefined && !isLast) || this.#judge(streamId, stream, wrong, isLast);
  }

  /** Ends a stream after an error, or completes one after its last frame. Returns true. */
  #judge(streamId: number, stream: Http2Stream, wrong: number | undefined, isLast: boolean): true {
    if (wrong !== undefined) {
      this.#reset(streamId, wrong);
      stream.broken(wrong, false);
    } else if (isLast && this.#streams.has(streamId)) {
      // A message that was answered before it was completely sent is no longer needed.
      if (this.#outbox.close(streamId)) this.#sendReset(streamId, ErrorCode.CANCEL);
      this.#forget(streamId);
      stream.completed();
    }
    return true;
  }

  #headersBegin(flags: number, streamId: number, bytes: Buffer, from: number, to: number): boolean {
    if (!this.#streams.has(streamId) && !this.#began(streamId)) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    const padding = flags & Flag.PADDED ? paddingOf(bytes, from, to) : 0;
    if (padding === undefined) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    const begin = from + (padding > 0 ? 1 : 0) + (flags & Flag.PRIORITY ? 5 : 0);
    const end = to - Math.max(0, padding - 1);
    if (begin > end) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    const isLast = (flags & Flag.END_STREAM) !== 0;
    if (flags & Flag.END_HEADERS) return this.#onHeaders(streamId, isLast, bytes, begin, end);
    this.#openBlock = { streamId, isLast, pieces: [Buffer.from(bytes.subarray(begin, end))], bytes: end - begin };
    return true;
  }

  #headersGoOn(flags: number, streamId: number, bytes: Buffer, from: number, to: number): boolean {
    const block = this.#openBlock;
    if (!block || block.streamId !== streamId) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    block.pieces.push(Buffer.from(bytes.subarray(from, to)));
    block.bytes += to - from;
    // Empty ones cost memory, too.
    if (block.bytes > MAX_HEADER_LIST_BYTES || block.pieces.length > MAX_HEADER_LIST_BYTES / 1024)
      return this.#fail(ErrorCode.ENHANCE_YOUR_CALM);
    if (!(flags & Flag.END_HEADERS)) return true;
    this.#openBlock = undefined;
    const whole = Buffer.concat(block.pieces);
    return this.#onHeaders(streamId, block.isLast, whole, 0, whole.length);
  }

  #onHeaders(streamId: number, isLast: boolean, bytes: Buffer, from: number, to: number): boolean {
    // Header blocks of ended streams are read, too: later ones refer to them.
    const headers = this.#headers.read(bytes, from, to);
    if (!headers) return this.#fail(ErrorCode.COMPRESSION_ERROR);
    const stream = this.#streams.get(streamId);
    if (!stream) return true;
    return this.#judge(streamId, stream, stream.onHeaders(headers, isLast), isLast);
  }

  #onReset(streamId: number, bytes: Buffer, from: number, to: number): boolean {
    if (to - from !== 4) return this.#fail(ErrorCode.FRAME_SIZE_ERROR);
    if (!this.#began(streamId)) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    const stream = this.#streams.get(streamId);
    if (!stream) return true;
    this.#outbox.close(streamId);
    this.#forget(streamId);
    stream.broken(bytes.readUInt32BE(from), false);
    return true;
  }

  #settings(flags: number, streamId: number, bytes: Buffer, from: number, to: number): boolean {
    if (streamId !== 0) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    const isAnswer = (flags & Flag.ACK) !== 0;
    if (isAnswer ? to > from : (to - from) % 6 !== 0) return this.#fail(ErrorCode.FRAME_SIZE_ERROR);
    if (isAnswer) return this.#standing || this.#fail(ErrorCode.PROTOCOL_ERROR);
    for (let at = from; at < to; at += 6) {
      const wrong = this.#setting(bytes.readUInt16BE(at), bytes.readUInt32BE(at + 2));
      if (wrong !== undefined) return this.#fail(wrong);
    }
    if (!this.#mayAnswer()) return false;
    this.#outbox.add(SETTINGS_TAKEN);
    if (!this.#standing) {
      this.#standing = true;
      this.#listener.standing();
    }
    this.#beginWaiting();
    return !this.#closed;
  }

  #setting(id: number, value: number): number | undefined {
    if (id === Setting.MAX_CONCURRENT_STREAMS) this.#maxStreams = value;
    if (id === Setting.INITIAL_WINDOW_SIZE) {
      if (value > MAX_31_BITS) return ErrorCode.FLOW_CONTROL_ERROR;
      this.#outbox.resize(value);
    }
    if (id === Setting.MAX_FRAME_SIZE) {
      if (value < DEFAULT_MAX_FRAME_BYTES || value >= 2 ** 24) return ErrorCode.PROTOCOL_ERROR;
      this.#outbox.maxFrameBytes = value;
    }
    return undefined;
  }

  #onPing(flags: number, streamId: number, bytes: Buffer, from: number, to: number): boolean {
    if (streamId !== 0) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    if (to - from !== 8) return this.#fail(ErrorCode.FRAME_SIZE_ERROR);
    if (flags & Flag.ACK) this.#pings.shift()?.();
    else if (!this.#mayAnswer()) return false;
    else this.#outbox.add(pingFrame(bytes.subarray(from, to), Flag.ACK));
    return true;
  }

  #onGoaway(streamId: number, bytes: Buffer, from: number, to: number): boolean {
    if (streamId !== 0) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    if (to - from < 8) return this.#fail(ErrorCode.FRAME_SIZE_ERROR);
    this.#goaways += 1;
    if (this.#goaways > MAX_GOAWAYS) return this.#fail(ErrorCode.ENHANCE_YOUR_CALM);
    this.#goingAway = true;
    this.#listener.goingAway(bytes.readUInt32BE(from + 4), bytes.toString("latin1", from + 8, to));
    const lastId = bytes.readUInt32BE(from) & MAX_31_BITS;
    // The peer never processed these: they may be retried elsewhere.
    const refused = [...this.#streams].filter(([id]) => id > lastId);
    for (const [id, stream] of refused) {
      this.#outbox.close(id);
      this.#streams.delete(id);
      stream.broken(ErrorCode.REFUSED_STREAM, false);
    }
    this.#beginWaiting();
    this.#closeWhenDone();
    return true;
  }

  #widen(streamId: number, bytes: Buffer, from: number, to: number): boolean {
    if (to - from !== 4) return this.#fail(ErrorCode.FRAME_SIZE_ERROR);
    if (streamId !== 0 && !this.#began(streamId)) return this.#fail(ErrorCode.PROTOCOL_ERROR);
    const by = bytes.readUInt32BE(from) & MAX_31_BITS;
    const wrong = by === 0 ? ErrorCode.PROTOCOL_ERROR : ErrorCode.FLOW_CONTROL_ERROR;
    if (by > 0 && this.#outbox.widen(streamId, by)) return true;
    const stream = this.#streams.get(streamId);
    if (streamId === 0) return this.#fail(wrong);
    return stream ? this.#judge(streamId, stream, wrong, false) : true;
  }

  /** Returns whether a stream of this id was ever begun here; the peer begins none. */
  #began(streamId: number): boolean {
    return streamId % 2 === 1 && streamId < this.#nextId;
  }

  /** Returns whether a frame may be answered; ends the connection of a peer that never reads answers. */
  #mayAnswer(): boolean {
    return this.#outbox.waitingBytes <= MAX_WAITING_BYTES || this.#fail(ErrorCode.ENHANCE_YOUR_CALM);
  }
}

const SETTINGS_TAKEN = Buffer.from([0, 0, 0, FrameType.SETTINGS, Flag.ACK, 0, 0, 0, 0]);

/** The padding bytes of a payload, with the length byte; undefined where they exceed the payload. */
function paddingOf(bytes: Buffer, from: number, to: number): number | undefined {
  const length = (bytes[from] ?? 0) + 1;
  return from < to && length <= to - from ? length : undefined;
}
