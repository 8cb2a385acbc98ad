import type { WireListener } from "./generate-wire.ts";
import { HeldBytes } from "./http2/held-bytes.ts";

const PREFIX_BYTES = 5;

/** The fault of bytes that cannot be split: a compressed message, or one above the agreed length. */
export type CutFault = { readonly kind: "compressed" } | { readonly kind: "too_large"; readonly bytes: number };

/**
 * Splits the bytes of one call into its length-prefixed gRPC messages. Pieces may end anywhere, and their memory may be
 * reused after the call: the rest of an incomplete message is copied until its end arrives.
 */
export class MessageCutter {
  /** Set to drop all further messages. */
  over = false;
  readonly #maxBytes: number;
  readonly #listener: Pick<WireListener, "message">;
  /** The beginning of an incomplete message; undefined where there is none. */
  #held: HeldBytes | undefined;
  #neededBytes = 0;

  constructor(maxBytes: number, listener: Pick<WireListener, "message">) {
    this.#maxBytes = maxBytes;
    this.#listener = listener;
  }

  /** Takes the next piece, the bytes from `from` to before `to`. Returns the fault; undefined where there is none. */
  take(piece: Buffer, from: number, to: number): CutFault | undefined {
    const held = this.#held;
    if (!held) return this.#cut(piece, from, to);
    held.add(piece, from, to, this.#neededBytes);
    if (held.length < this.#neededBytes) return undefined;
    this.#held = undefined;
    const all = held.take();
    return this.#cut(all, 0, all.length);
  }

  #cut(bytes: Buffer, begin: number, end: number): CutFault | undefined {
    let at = begin;
    this.#neededBytes = PREFIX_BYTES;
    while (end - at >= PREFIX_BYTES && !this.over) {
      const length = bytes.readUInt32BE(at + 1);
      // No compression was offered.
      if (bytes[at] !== 0) return { kind: "compressed" };
      if (length > this.#maxBytes) return { kind: "too_large", bytes: length };
      const from = at + PREFIX_BYTES;
      if (end - from < length) {
        this.#neededBytes = PREFIX_BYTES + length;
        break;
      }
      at = from + length;
      this.#listener.message(bytes, from, at);
    }
    if (at === end || this.over) return undefined;
    this.#held = new HeldBytes();
    this.#held.add(bytes, at, end, this.#neededBytes);
    return undefined;
  }
}

/** Returns a message with its length before it. The message is copied: use it for small ones. */
export function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES + message.byteLength);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.byteLength, 1);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}

export function prefixOf(messageBytes: number): Buffer {
  const bytes = Buffer.alloc(PREFIX_BYTES);
  bytes.writeUInt32BE(messageBytes, 1);
  return bytes;
}
