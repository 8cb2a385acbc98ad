/** What the process that starts gateway workers tells each of them; sent again when something changes. */
export type WorkersMessage = {
  /** The admin listeners of all workers, in their order. */
  readonly workers: readonly string[];
};

/** The gateway workers that share one public port, as one of them sees them. */
export class Workers {
  /** Of this one, from 1. */
  readonly index: number;
  /** In all, this one with them. */
  readonly count: number;
  #adminUrls: readonly string[] = [];

  constructor({ index, count }: { readonly index: number; readonly count: number }) {
    this.index = index;
    this.count = count;
  }

  /** The admin listeners of all, this one's with them; empty until they are known. */
  get adminUrls(): readonly string[] {
    return this.#adminUrls;
  }

  /** Takes what the starting process says; other messages are not for here. */
  take(message: unknown): void {
    if (isWorkersMessage(message)) this.#adminUrls = message.workers;
  }
}

function isWorkersMessage(message: unknown): message is WorkersMessage {
  return typeof message === "object" && message !== null && "workers" in message && Array.isArray(message.workers);
}
