/** The bytes before each message: whether it is compressed, and how long it is. */
const PREFIX_BYTES = 5;

/** What is wrong with bytes that cannot be cut: a message that is compressed, or one that is longer than agreed. */
export type CutFault = { readonly kind: "compressed" } | { readonly kind: "too_large"; readonly bytes: number };

/**
 * Cuts the bytes of one call into its messages, which gRPC sends with their lengths before them. Pieces may end anywhere:
 * what is left of one is kept until the rest has come.
 */
export class MessageCutter {
  readonly #maxBytes: number;
  readonly #onMessage: (bytes: Buffer, from: number, to: number) => void;
  /** The pieces of a message that is not whole. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** The bytes that are to be there before it is looked again. */
  #neededBytes = 0;

  /** Makes a cutter of messages of at most `maxBytes` bytes, which hands each to `onMessage` where it lies. */
  constructor(maxBytes: number, onMessage: (bytes: Buffer, from: number, to: number) => void) {
    this.#maxBytes = maxBytes;
    this.#onMessage = onMessage;
  }

  /** Takes the next piece. Returns what is wrong with it; undefined where nothing is. */
  take(piece: Buffer): CutFault | undefined {
    if (this.#heldBytes === 0) return this.#cut(piece);
    this.#hold(piece);
    if (this.#heldBytes < this.#neededBytes) return undefined;
    const all = Buffer.concat(this.#held, this.#heldBytes);
    this.#held = [];
    this.#heldBytes = 0;
    return this.#cut(all);
  }

  #cut(bytes: Buffer): CutFault | undefined {
    let at = 0;
    this.#neededBytes = PREFIX_BYTES;
    while (bytes.length - at >= PREFIX_BYTES) {
      const length = bytes.readUInt32BE(at + 1);
      // No compression was offered.
      if (bytes[at] !== 0) return { kind: "compressed" };
      if (length > this.#maxBytes) return { kind: "too_large", bytes: length };
      const from = at + PREFIX_BYTES;
      if (bytes.length - from < length) {
        this.#neededBytes = PREFIX_BYTES + length;
        break;
      }
      at = from + length;
      this.#onMessage(bytes, from, at);
    }
    if (at < bytes.length) this.#hold(at === 0 ? bytes : bytes.subarray(at));
    return undefined;
  }

  #hold(piece: Buffer): void {
    this.#held.push(piece);
    this.#heldBytes += piece.length;
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
