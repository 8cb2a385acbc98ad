import { type CallTerms, type EncodedRequest, messageFor, wholeBytes } from "./encoded-request.ts";

/** A message for an engine. */
export type RequestBytes = Pick<EncodedRequest, "bytes" | "inserted"> & Pick<CallTerms, "lease">;

/**
 * Holds a request as long as an attempt may need it. It is the only holder of the bytes, which may be tens of
 * megabytes: a sender reads them when it writes them, and keeps no reference.
 */
export class RequestBuffer {
  readonly tenant: string;
  readonly size: number;
  #request: RequestBytes | undefined;
  isTaken = false;
  readonly #onTaken: () => void;

  /** `onTaken` is called once, when an engine has taken the message permanently. */
  constructor(request: RequestBytes, tenant: string, onTaken = () => {}) {
    const { bytes, inserted } = request;
    this.tenant = tenant;
    this.size = (inserted?.messages ?? []).reduce((sum, some) => sum + some.bytes.byteLength, bytes.byteLength);
    this.#request = request;
    this.#onTaken = onTaken;
  }

  /** The message in the bytes of the contract. Throws after `drop`. */
  get bytes(): Uint8Array {
    return wholeBytes(this.#held);
  }

  /** Returns the message of one call (`messageFor`). Throws after `drop`. */
  messageFor(terms: Omit<CallTerms, "lease">): Uint8Array {
    const { lease = false } = this.#held;
    return messageFor(this.#held, { ...terms, lease });
  }

  get #held(): RequestBytes {
    if (!this.#request) throw new Error("the request was dropped");
    return this.#request;
  }

  /** Records that an engine has taken the message; it is held in case another has to continue. Idempotent. */
  taken(): void {
    if (this.isTaken) return;
    this.isTaken = true;
    this.#onTaken();
  }

  /** Releases the message: no attempt will need it any more. Idempotent. */
  drop(): void {
    this.#request = undefined;
    this.taken();
  }
}
