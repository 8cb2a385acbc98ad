/* The frames of HTTP/2 (RFC 9113, section 6): each begins with nine bytes of length, type, flags and stream. */

export const FRAME_HEAD_BYTES = 9;
export const DEFAULT_MAX_FRAME_BYTES = 16_384;
export const DEFAULT_WINDOW_BYTES = 65_535;
/** The largest window, in bytes, and the largest id of a stream. */
export const MAX_31_BITS = 0x7fff_ffff;

export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export const FrameType = {
  DATA: 0,
  HEADERS: 1,
  PRIORITY: 2,
  RST_STREAM: 3,
  SETTINGS: 4,
  PUSH_PROMISE: 5,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
  CONTINUATION: 9,
} as const;

/** The flags of frames, of which each type has its own. */
export const Flag = { END_STREAM: 1, ACK: 1, END_HEADERS: 4, PADDED: 8, PRIORITY: 32 } as const;

export const Setting = {
  ENABLE_PUSH: 2,
  MAX_CONCURRENT_STREAMS: 3,
  INITIAL_WINDOW_SIZE: 4,
  MAX_FRAME_SIZE: 5,
  MAX_HEADER_LIST_SIZE: 6,
} as const;

export const ErrorCode = {
  NO_ERROR: 0,
  PROTOCOL_ERROR: 1,
  FLOW_CONTROL_ERROR: 3,
  FRAME_SIZE_ERROR: 6,
  REFUSED_STREAM: 7,
  CANCEL: 8,
  COMPRESSION_ERROR: 9,
  ENHANCE_YOUR_CALM: 11,
  INADEQUATE_SECURITY: 12,
} as const;

function writeHead(bytes: Buffer, length: number, type: number, flags: number, streamId: number): void {
  bytes.writeUIntBE(length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(streamId, 5);
}

export function frameHead(length: number, type: number, flags: number, streamId: number): Buffer {
  const head = Buffer.allocUnsafe(FRAME_HEAD_BYTES);
  writeHead(head, length, type, flags, streamId);
  return head;
}

/** Returns a frame whose payload is one number of four bytes: of type RST_STREAM or WINDOW_UPDATE. */
export function numberFrame(type: number, streamId: number, value: number): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_HEAD_BYTES + 4);
  writeHead(frame, 4, type, 0, streamId);
  frame.writeUInt32BE(value, FRAME_HEAD_BYTES);
  return frame;
}

export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_HEAD_BYTES + settings.length * 6);
  writeHead(frame, settings.length * 6, FrameType.SETTINGS, 0, 0);
  for (const [at, [id, value]] of settings.entries()) {
    frame.writeUInt16BE(id, FRAME_HEAD_BYTES + at * 6);
    frame.writeUInt32BE(value, FRAME_HEAD_BYTES + at * 6 + 2);
  }
  return frame;
}

export function pingFrame(opaque: Uint8Array, flags: number): Buffer {
  return Buffer.concat([frameHead(opaque.length, FrameType.PING, flags, 0), opaque]);
}

/** Returns the GOAWAY frame of a connection ended with `code`. No stream of the peer was processed. */
export function goawayFrame(code: number): Buffer {
  const frame = Buffer.alloc(FRAME_HEAD_BYTES + 8);
  writeHead(frame, 8, FrameType.GOAWAY, 0, 0);
  frame.writeUInt32BE(code, FRAME_HEAD_BYTES + 4);
  return frame;
}

/** Returns the frames of a header block: HEADERS, and CONTINUATION frames where it exceeds the largest frame. */
export function headerFrames(block: Buffer, streamId: number, maxFrameBytes: number): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < block.length; at += maxFrameBytes) {
    const piece = block.subarray(at, at + maxFrameBytes);
    const flags = at + piece.length === block.length ? Flag.END_HEADERS : 0;
    const type = at === 0 ? FrameType.HEADERS : FrameType.CONTINUATION;
    pieces.push(frameHead(piece.length, type, flags, streamId), piece);
  }
  return Buffer.concat(pieces);
}

/** Takes a frame; its bytes are valid only during the call. Returns whether to continue. */
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
  #held: Buffer | undefined;
  #heldBytes = 0;

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
      const length = bytes.length - at >= FRAME_HEAD_BYTES ? bytes.readUIntBE(at, 3) : 0;
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

  /** Completes the held frame. Returns the end of the bytes read; undefined where it is too large. */
  #complete(bytes: Buffer, from: number): number | undefined {
    const held = this.#held as Buffer; // made before anything is held
    let at = this.#holdUpTo(FRAME_HEAD_BYTES, bytes, from);
    if (this.#heldBytes < FRAME_HEAD_BYTES) return at;
    const length = held.readUIntBE(0, 3);
    if (length > this.#maxPayloadBytes) return undefined;
    const end = FRAME_HEAD_BYTES + length;
    at = this.#holdUpTo(end, bytes, at);
    if (this.#heldBytes < end) return at;
    this.#heldBytes = 0;
    return this.#deliver(held, 0, end) ? at : bytes.length;
  }

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
