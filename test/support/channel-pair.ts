import type { Channel } from "../../deploy/runtime/process/process-channel.ts";

/** A channel within one process. What the host is sent waits while it is stuck, as in a pipe. */
export class ChannelPair<Request, Reply> {
  readonly worker: Channel<Request, Reply>;
  readonly host: Channel<Reply, Request>;
  readonly #waiting: Request[] = [];
  #toHost: (request: Request) => void = () => {};
  #toWorker: (reply: Reply) => void = () => {};
  #stuck = false;

  constructor() {
    this.worker = {
      send: (request) => {
        this.#waiting.push(copy(request));
        if (!this.#stuck) this.#deliver();
      },
      onMessage: (listener) => {
        this.#toWorker = listener;
      },
    };
    this.host = {
      send: (reply) => this.#toWorker(copy(reply)),
      onMessage: (listener) => {
        this.#toHost = listener;
      },
    };
  }

  /** Requests that the host has not read. */
  get waiting(): readonly Request[] {
    return this.#waiting;
  }

  stick(): void {
    this.#stuck = true;
  }

  /** The host reads on, and what it answers has arrived when this resolves. */
  async comeBack(): Promise<void> {
    this.#stuck = false;
    this.#deliver();
    await new Promise((resolve) => setImmediate(resolve));
  }

  #deliver(): void {
    for (const request of this.#waiting.splice(0)) this.#toHost(request);
  }
}

/** As it arrives in another process. */
function copy<T>(message: T): T {
  return JSON.parse(JSON.stringify(message));
}
