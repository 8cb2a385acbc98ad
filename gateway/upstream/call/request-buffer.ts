/**
 * Holds a request for as long as some try may need it. It is the one holder of its bytes, which may be tens of
 * megabytes: a sender reads them when it writes them, and keeps no reference.
 */
export class RequestBuffer {
  /** The tenant that the request belongs to. */
  readonly tenant: string;
  /** The size of the message in bytes. */
  readonly size: number;
  #bytes: Uint8Array | undefined;
  #isTaken = false;
  readonly #onTaken: () => void;

  /**
   * Begins to hold the message of a tenant. `onTaken` is called once, when an engine has it for good.
   */
  constructor(bytes: Uint8Array, tenant: string, onTaken = () => {}) {
    this.tenant = tenant;
    this.size = bytes.byteLength;
    this.#bytes = bytes;
    this.#onTaken = onTaken;
  }

  /** The message for the engine, in the bytes of the contract. Throws once it is dropped. */
  get bytes(): Uint8Array {
    if (!this.#bytes) throw new Error("the request was dropped");
    return this.#bytes;
  }

  /** Whether an engine has the message for good. */
  get isTaken(): boolean {
    return this.#isTaken;
  }

  /**
   * Notes that an engine has the message for good, so that it is no longer one on its way; it is held all the same,
   * should another engine have to go on. A second call does nothing.
   */
  taken(): void {
    if (this.#isTaken) return;
    this.#isTaken = true;
    this.#onTaken();
  }

  /** Lets the message go: no try will need it any more. A second call does nothing. */
  drop(): void {
    this.#bytes = undefined;
    this.taken();
  }
}
