import type { LimitChannel, LimitReply, LimitRequest } from "../../../../gateway/limits/limit-message.ts";

/** A channel within one process. What the host is sent waits while it is stuck, as in a pipe. */
export class ChannelPair {
  readonly worker: LimitChannel<LimitRequest, LimitReply>;
  readonly host: LimitChannel<LimitReply, LimitRequest>;
  readonly #waiting: LimitRequest[] = [];
  #toHost: (request: LimitRequest) => void = () => {};
  #toWorker: (reply: LimitReply) => void = () => {};
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
  get waiting(): readonly LimitRequest[] {
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
