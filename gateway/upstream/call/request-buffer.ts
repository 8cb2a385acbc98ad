/**
 * Holds a request as long as an attempt may need it. It is the only holder of the bytes, which may be tens of
 * megabytes: a sender reads them when it writes them, and keeps no reference.
 */
export class RequestBuffer {
  readonly tenant: string;
  readonly size: number;
  #bytes: Uint8Array | undefined;
  isTaken = false;
  readonly #onTaken: () => void;

  /** `onTaken` is called once, when an engine has taken the message permanently. */
  constructor(bytes: Uint8Array, tenant: string, onTaken = () => {}) {
    this.tenant = tenant;
    this.size = bytes.byteLength;
    this.#bytes = bytes;
    this.#onTaken = onTaken;
  }

  /** The message for the engine, in the bytes of the contract. Throws after `drop`. */
  get bytes(): Uint8Array {
    if (!this.#bytes) throw new Error("the request was dropped");
    return this.#bytes;
  }

  /** Records that an engine has taken the message; it is held in case another has to continue. Idempotent. */
  taken(): void {
    if (this.isTaken) return;
    this.isTaken = true;
    this.#onTaken();
  }

  /** Releases the message: no attempt will need it any more. Idempotent. */
  drop(): void {
    this.#bytes = undefined;
    this.taken();
  }
}
