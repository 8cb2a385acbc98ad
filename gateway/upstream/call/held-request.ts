/**
 * Holds a request for as long as some try may need it. It is the one holder of its bytes, which may be tens of
 * megabytes: whoever sends them takes them out at that moment and keeps nothing of them.
 */
export class HeldRequest {
  /** The tenant that the request belongs to. */
  readonly tenant: string;
  /** The size of the message in bytes. */
  readonly size: number;
  #bytes: Uint8Array | undefined;
  readonly #onDropped: () => void;

  /** Begins to hold the message of a tenant. `onDropped` is called once, when it is dropped; by default nobody is told. */
  constructor(bytes: Uint8Array, tenant: string, onDropped = () => {}) {
    this.tenant = tenant;
    this.size = bytes.byteLength;
    this.#bytes = bytes;
    this.#onDropped = onDropped;
  }

  /** The message for the engine, in the bytes of the contract. Throws once it is dropped. */
  get bytes(): Uint8Array {
    if (!this.#bytes) throw new Error("the request was dropped");
    return this.#bytes;
  }

  /** Lets the message go: no try will need it any more. A second call does nothing. */
  drop(): void {
    if (!this.#bytes) return;
    this.#bytes = undefined;
    this.#onDropped();
  }
}

/** Returns the bytes of a message for `grpc-js` without a copy of them. */
export function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
