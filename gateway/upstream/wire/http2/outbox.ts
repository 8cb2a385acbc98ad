import type { Socket } from "node:net";
import { DEFAULT_MAX_FRAME_BYTES, DEFAULT_WINDOW_BYTES, Flag, FrameType, frameHead, MAX_31_BITS } from "./frames.ts";

/** The most unsent bytes up to which further message frames are made. */
const HIGH_WATER_BYTES = 256 * 1024;
/** The most bytes that are joined into one piece for a write; longer pieces are written as they are. */
const JOINED_BYTES = 64 * 1024;

type Body = {
  readonly streamId: number;
  pieces: readonly Uint8Array[];
  readonly onTaken: () => void;
};

/** Sends frames, all of a turn in one write; messages take turns, so that a big one delays no small one. */
export class Outbox {
  maxFrameBytes = DEFAULT_MAX_FRAME_BYTES;
  readonly #socket: Socket;
  #pieces: Uint8Array[] = [];
  #onWritten: (() => void)[] = [];
  #scheduled = false;
  #window = DEFAULT_WINDOW_BYTES;
  #firstWindow = DEFAULT_WINDOW_BYTES;
  /** By stream, the window less the initial one, so that a new initial window costs the same for all. */
  readonly #windows = new Map<number, number>();
  readonly #bodies = new Map<number, Body>();

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get waitingBytes(): number {
    return this.#socket.writableLength;
  }

  add(frame: Uint8Array): void {
    this.#pieces.push(frame);
    this.#schedule();
  }

  open(streamId: number): void {
    this.#windows.set(streamId, 0);
  }

  /** Sends a message; no piece is empty. `onTaken` is called when the system has taken it. */
  send(streamId: number, pieces: readonly Uint8Array[], onTaken: () => void): void {
    this.#bodies.set(streamId, { streamId, pieces, onTaken });
    this.#schedule();
  }

  /** Removes a stream: no further part of its message is sent. Returns whether an unsent part was left. */
  close(streamId: number): boolean {
    this.#windows.delete(streamId);
    return this.#bodies.delete(streamId);
  }

  /** Widens the window of a stream, or with 0 of the connection. Returns false where it exceeds the largest window. */
  widen(streamId: number, bytes: number): boolean {
    if (this.#bodies.size > 0) this.#schedule();
    if (streamId === 0) {
      this.#window += bytes;
      return this.#window <= MAX_31_BITS;
    }
    const window = this.#windows.get(streamId);
    // It has ended here, and the peer has not received that yet.
    if (window === undefined) return true;
    this.#windows.set(streamId, window + bytes);
    return this.#firstWindow + window + bytes <= MAX_31_BITS;
  }

  /** Changes the initial window, and with it those of all streams: they may become negative. */
  resize(firstWindow: number): void {
    if (this.#bodies.size > 0) this.#schedule();
    this.#firstWindow = firstWindow;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#flush);
  }

  readonly #flush = (): void => {
    this.#scheduled = false;
    if (this.#socket.destroyed) return;
    if (this.#bodies.size > 0) this.#takeFrames();
    const pieces = this.#pieces;
    const onWritten = this.#onWritten;
    if (pieces.length === 0) return;
    this.#pieces = [];
    this.#onWritten = [];
    const written = () => {
      for (const onTaken of onWritten) onTaken();
      if (this.#bodies.size > 0) this.#schedule();
    };
    const socket = this.#socket;
    const [first] = pieces;
    if (first && pieces.length === 1) socket.write(first, written);
    else if (sizeOf(pieces) <= JOINED_BYTES) socket.write(Buffer.concat(pieces), written);
    else {
      socket.cork();
      for (const [at, piece] of pieces.entries()) socket.write(piece, at === pieces.length - 1 ? written : undefined);
      socket.uncork();
    }
  };

  /** Makes frames of messages, one of each in turns, until the socket's buffer or the peer's windows are full. */
  #takeFrames(): void {
    let free = HIGH_WATER_BYTES - this.#socket.writableLength - sizeOf(this.#pieces);
    let made = true;
    while (made) {
      made = false;
      for (const body of this.#bodies.values()) {
        const bytes = free > 0 ? this.#takeFrame(body) : undefined;
        if (bytes === undefined) continue;
        free -= bytes;
        made = true;
      }
    }
  }

  #takeFrame(body: Body): number | undefined {
    const { streamId, pieces, onTaken } = body;
    const window = this.#windows.get(streamId) ?? 0;
    const [first, ...more] = pieces;
    const bytes = Math.min(first?.length ?? 0, this.maxFrameBytes, this.#window, this.#firstWindow + window);
    if (first && bytes <= 0) return undefined;
    this.#window -= bytes;
    this.#windows.set(streamId, window - bytes);
    const isWhole = bytes === (first?.length ?? 0);
    const isLast = isWhole && more.length === 0;
    this.#pieces.push(frameHead(bytes, FrameType.DATA, isLast ? Flag.END_STREAM : 0, streamId));
    if (first) this.#pieces.push(isWhole ? first : first.subarray(0, bytes));
    if (isLast) {
      this.#bodies.delete(streamId);
      this.#onWritten.push(onTaken);
    } else body.pieces = isWhole || !first ? more : [first.subarray(bytes), ...more];
    return bytes;
  }
}

function sizeOf(pieces: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const { length } of pieces) bytes += length;
  return bytes;
}
