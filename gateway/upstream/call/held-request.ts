import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/**
 * Holds a request for as long as some try may need it. It is the one holder of its prompt, which may be of tens of
 * megabytes: whoever sends it takes the message out at that moment and keeps nothing of it.
 */
export class HeldRequest {
  /** The catalog id of the model. */
  readonly model: string;
  /** The tenant that the request belongs to. */
  readonly tenant: string;
  /** The size of the request in bytes, roughly. */
  readonly bytes: number;
  #message: GenerateRequest | undefined;
  readonly #onDropped: () => void;

  /**
   * Begins to hold a message. `bytes` is the size of the body that the request came with. `onDropped` is called once,
   * when it is dropped.
   */
  constructor(message: GenerateRequest, bytes: number, onDropped: () => void = () => {}) {
    this.model = message.model;
    this.tenant = message.tenant;
    this.bytes = bytes;
    this.#message = message;
    this.#onDropped = onDropped;
  }

  /** The message for the engine. Throws once it is dropped. */
  get message(): GenerateRequest {
    if (!this.#message) throw new Error("the request was dropped");
    return this.#message;
  }

  /** Lets the message go: no try will need it any more. A second call does nothing. */
  drop(): void {
    if (!this.#message) return;
    this.#message = undefined;
    this.#onDropped();
  }
}
