/**
 * The message with which the process that starts gateway workers tells each of them about all; it is sent again when
 * something changes.
 */
export type WorkersMessage = {
  /** The URLs of the admin listeners of all workers, in the order of the workers. */
  readonly workers: readonly string[];
};

/** Knows the gateway workers that share one public port, as one of them sees them. */
export class Workers {
  /** The number of this worker, from 1. */
  readonly index: number;
  /** The number of all workers, this one included. */
  readonly count: number;
  #adminUrls: readonly string[] = [];

  constructor({ index, count }: { readonly index: number; readonly count: number }) {
    this.index = index;
    this.count = count;
  }

  /** The URLs of the admin listeners of all workers, this one's included; empty until they are known. */
  get adminUrls(): readonly string[] {
    return this.#adminUrls;
  }

  /** Takes what the starting process says; any other message is ignored. */
  take(message: unknown): void {
    if (isWorkersMessage(message)) this.#adminUrls = message.workers;
  }
}

function isWorkersMessage(message: unknown): message is WorkersMessage {
  return typeof message === "object" && message !== null && "workers" in message && Array.isArray(message.workers);
}
