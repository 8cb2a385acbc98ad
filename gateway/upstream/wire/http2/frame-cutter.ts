import { FRAME_HEAD_BYTES } from "./frames.ts";

/**
 * Takes a frame, whose payload is the bytes from `from` to before `to`. They are valid only during the call. Returns
 * whether to continue.
 */
export type OnFrame = (
  type: number,
  flags: number,
  streamId: number,
  bytes: Buffer,
  from: number,
  to: number,
) => boolean;

/**
 * Splits the bytes of a connection into frames. Pieces may end anywhere, and their memory may be reused after the call:
 * the rest of an incomplete frame is copied, and of the next piece only the bytes that complete it.
 */
export class FrameCutter {
  readonly #maxPayloadBytes: number;
  readonly #onFrame: OnFrame;
  /** A buffer for one frame, allocated at the first incomplete one. */
  #held: Buffer | undefined;
  #heldBytes = 0;

  /** Accepts frames with payloads of at most `maxPayloadBytes` bytes. */
  constructor(maxPayloadBytes: number, onFrame: OnFrame) {
    this.#maxPayloadBytes = maxPayloadBytes;
    this.#onFrame = onFrame;
  }

  /** Takes the next piece. Returns false where a frame is too large: nothing behind it can be parsed. */
  take(bytes: Buffer): boolean {
    let at = 0;
    while (at < bytes.length || this.#heldBytes > 0) {
      if (this.#heldBytes > 0) {
        const more = this.#complete(bytes, at);
        if (more === undefined) return false;
        at = more;
        if (this.#heldBytes > 0) return true;
        continue;
      }
      const length = bytes.length - at >= FRAME_HEAD_BYTES ? lengthAt(bytes, at) : 0;
      if (length > this.#maxPayloadBytes) return false;
      const end = at + FRAME_HEAD_BYTES + length;
      if (end > bytes.length) {
        this.#hold(bytes, at, bytes.length);
        return true;
      }
      if (!this.#deliver(bytes, at, end)) return true;
      at = end;
    }
    return true;
  }

  /**
   * Adds to the held frame, and delivers it once it is complete. Returns the end of the bytes read from `bytes`;
   * undefined where the frame is too large.
   */
  #complete(bytes: Buffer, from: number): number | undefined {
    const held = this.#held as Buffer; // made before anything is held
    let at = this.#holdUpTo(FRAME_HEAD_BYTES, bytes, from);
    if (this.#heldBytes < FRAME_HEAD_BYTES) return at;
    const length = lengthAt(held, 0);
    if (length > this.#maxPayloadBytes) return undefined;
    const end = FRAME_HEAD_BYTES + length;
    at = this.#holdUpTo(end, bytes, at);
    if (this.#heldBytes < end) return at;
    this.#heldBytes = 0;
    return this.#deliver(held, 0, end) ? at : bytes.length;
  }

  /** Holds the bytes missing to `wanted`. Returns the end of the bytes read from `bytes`. */
  #holdUpTo(wanted: number, bytes: Buffer, from: number): number {
    const to = Math.min(bytes.length, from + Math.max(0, wanted - this.#heldBytes));
    this.#hold(bytes, from, to);
    return to;
  }

  #hold(bytes: Buffer, from: number, to: number): void {
    this.#held ??= Buffer.allocUnsafeSlow(FRAME_HEAD_BYTES + this.#maxPayloadBytes);
    bytes.copy(this.#held, this.#heldBytes, from, to);
    this.#heldBytes += to - from;
  }

  #deliver(bytes: Buffer, at: number, end: number): boolean {
    // The highest bit of the id is reserved.
    const streamId = bytes.readUInt32BE(at + 5) & 0x7fff_ffff;
    return this.#onFrame(bytes[at + 3] ?? 0, bytes[at + 4] ?? 0, streamId, bytes, at + FRAME_HEAD_BYTES, end);
  }
}

/** Returns the length of the payload of the frame whose head begins at `at`. */
function lengthAt(bytes: Buffer, at: number): number {
  return bytes.readUIntBE(at, 3);
}
