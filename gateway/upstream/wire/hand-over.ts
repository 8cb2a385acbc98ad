import { InterceptingCall, type Interceptor } from "@grpc/grpc-js";
import type { FairLane } from "../../../deploy/runtime/queue/fair-lane.ts";

/** The size, in bytes, from which messages to an endpoint are serialized. */
const BIG_MESSAGE_BYTES = 256 * 1024;

/** Returns whether a message of about `bytes` bytes waits for its turn among the big ones of its endpoint. */
export function isBigMessage(bytes: number): boolean {
  return bytes >= BIG_MESSAGE_BYTES;
}

export type HandOverOptions = {
  readonly lane: FairLane;
  /** The tenant of the message: the lane is fair between tenants. */
  readonly tenant: string;
  readonly bytes: number;
  readonly watch?: HandOverWatch;
};

export type HandOverWatch = {
  /** Called when encoding and writing of the message begins: a big one may have waited for others. */
  handOverBegun(): void;
  handedOver(): void;
};

/**
 * Writes the message of one call to the connection of an endpoint. Big messages are serialized: each takes its memory
 * several times while it is encoded and written, and several at once would all be late. `grpc-js` keeps a message as
 * long as its call runs if it is given before the call has its stream, so the message is passed in the next turn.
 */
export class HandOver {
  readonly #options: HandOverOptions;
  #leaveLane: (() => void) | undefined;
  #over = false;

  constructor(options: HandOverOptions) {
    this.#options = options;
  }

  /** Calls `write` at the message's turn: at once for a small one, never after the end of the call. */
  begin(write: () => void): void {
    const { lane, tenant, bytes } = this.#options;
    if (!isBigMessage(bytes) || this.#over) this.#start(write);
    else this.#leaveLane = lane.enter({ key: tenant, cost: bytes }, () => this.#start(write));
  }

  #start(write: () => void): void {
    if (this.#over) return;
    this.#options.watch?.handOverBegun();
    write();
  }

  readonly taken = (): void => {
    if (this.#leaveLane) this.#leave();
    if (!this.#over) this.#options.watch?.handedOver();
  };

  /** Delays one call until its turn, and reports that its message was written. */
  readonly interceptor: Interceptor = (options, nextCall) => {
    const requester = {
      sendMessage: (message: unknown, next: (message: unknown) => void) => {
        setImmediate(() => this.begin(() => next(message)));
      },
    };
    return new ReportingCall(nextCall(options), requester, this.taken);
  };

  /** Releases the lane for the next message. Called at the end of the call, with any result. */
  end(): void {
    this.#over = true;
    if (this.#leaveLane) this.#leave();
  }

  #leave(): void {
    const leaveLane = this.#leaveLane;
    // The closure retains the message, and the call outlives that by far.
    this.#leaveLane = undefined;
    leaveLane?.();
  }
}

/** A call that reports when the connection has taken its message. */
class ReportingCall extends InterceptingCall {
  readonly #onWritten: () => void;

  constructor(
    nextCall: ConstructorParameters<typeof InterceptingCall>[0],
    requester: ConstructorParameters<typeof InterceptingCall>[1],
    onWritten: () => void,
  ) {
    super(nextCall, requester);
    this.#onWritten = onWritten;
  }

  override sendMessage(message: unknown): void {
    this.sendMessageWithContext({ callback: this.#onWritten }, message);
  }
}
