import { HeldBytes } from "./http2/held-bytes.ts";

/** The bytes before each message: whether it is compressed, and how long it is. */
const PREFIX_BYTES = 5;

/** What is wrong with bytes that cannot be cut: a message that is compressed, or one that is longer than agreed. */
export type CutFault = { readonly kind: "compressed" } | { readonly kind: "too_large"; readonly bytes: number };

/**
 * Cuts the bytes of one call into its messages, which gRPC sends with their lengths before them. Pieces may end anywhere,
 * and their memory may be used again behind the call: what is left of one is copied until the rest has come.
 */
export class MessageCutter {
  readonly #maxBytes: number;
  readonly #onMessage: (bytes: Buffer, from: number, to: number) => void;
  /** What has come of a message that is not whole. */
  readonly #held = new HeldBytes();
  /** The bytes that are to be there before it is looked again. */
  #neededBytes = 0;

  /** Makes a cutter of messages of at most `maxBytes` bytes, which hands each to `onMessage` where it lies. */
  constructor(maxBytes: number, onMessage: (bytes: Buffer, from: number, to: number) => void) {
    this.#maxBytes = maxBytes;
    this.#onMessage = onMessage;
  }

  /**
   * Takes the next piece, which is the bytes from `from` to before `to`. Returns what is wrong with it; undefined where
   * nothing is.
   */
  take(piece: Buffer, from: number, to: number): CutFault | undefined {
    if (this.#held.length === 0) return this.#cut(piece, from, to);
    this.#held.add(piece, from, to, this.#neededBytes);
    if (this.#held.length < this.#neededBytes) return undefined;
    const all = this.#held.take();
    return this.#cut(all, 0, all.length);
  }

  #cut(bytes: Buffer, begin: number, end: number): CutFault | undefined {
    let at = begin;
    this.#neededBytes = PREFIX_BYTES;
    while (end - at >= PREFIX_BYTES) {
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
      this.#onMessage(bytes, from, at);
    }
    if (at < end) this.#held.add(bytes, at, end, this.#neededBytes);
    return undefined;
  }
}

/** Returns a message with its length before it. The message is copied: it is for small ones. */
export function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES + message.byteLength);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.byteLength, 1);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}

/** Returns what stands before a message of so many bytes. */
export function prefixOf(messageBytes: number): Buffer {
  const bytes = Buffer.alloc(PREFIX_BYTES);
  bytes.writeUInt32BE(messageBytes, 1);
  return bytes;
}
