import { InterceptingCall, type Interceptor } from "@grpc/grpc-js";
import type { FairLane } from "../../../deploy/runtime/queue/fair-lane.ts";

/** The size, in bytes, from which messages go to an endpoint one after the other. */
const BIG_MESSAGE_BYTES = 256 * 1024;

/** Returns whether a message of so many bytes, roughly, waits for its turn among the big ones of its endpoint. */
export function isBigMessage(bytes: number): boolean {
  return bytes >= BIG_MESSAGE_BYTES;
}

/** What handing a message over to an endpoint goes by. */
export type HandOverOptions = {
  /** The lane of the endpoint, which big messages share. */
  readonly lane: FairLane;
  /** The tenant of the message: the lane is fair between tenants. */
  readonly tenant: string;
  /** The size of the message in bytes, roughly. */
  readonly bytes: number;
  /** Called when the message begins to be encoded and written: a big one may have had to wait for others. */
  readonly onBegun?: () => void;
  /** Called when the connection has taken the whole message; also when the call ends before that. */
  readonly onHandedOver?: () => void;
};

/**
 * Hands the message of one call over to the connection of an endpoint. Big ones go one after the other: each of them
 * takes up memory several times while it is encoded and written, and several at once would all be late. `grpc-js` keeps
 * a message for as long as its call runs if it is given before the call has its stream, so it gets none before the next
 * turn.
 */
export class HandOver {
  readonly #options: HandOverOptions;
  #leaveLane = () => {};
  #over = false;

  constructor(options: HandOverOptions) {
    this.#options = options;
  }

  /**
   * Calls `write` when it is the message's turn to be encoded and written: at once for a small one. It is not called any
   * more once the call has ended.
   */
  begin(write: () => void): void {
    if (this.#over) return;
    const { lane, tenant, bytes, onBegun } = this.#options;
    const start = () => {
      if (this.#over) return;
      onBegun?.();
      write();
    };
    if (isBigMessage(bytes)) this.#leaveLane = lane.enter({ key: tenant, cost: bytes }, start);
    else start();
  }

  /** Notes that the connection has taken the whole message. */
  taken(): void {
    this.#leave();
    if (!this.#over) this.#options.onHandedOver?.();
  }

  /**
   * The interceptor that makes the call wait for its turn, and tells when its message has gone. It is to be among the
   * interceptors of one call.
   */
  readonly interceptor: Interceptor = (options, nextCall) => {
    const requester = {
      sendMessage: (message: unknown, next: (message: unknown) => void) => {
        setImmediate(() => this.begin(() => next(message)));
      },
    };
    return new ToldCall(nextCall(options), requester, () => this.taken());
  };

  /** Lets the next message go. It is to be called when the call has ended, whichever way. */
  end(): void {
    this.#over = true;
    this.#leave();
  }

  #leave(): void {
    const leaveLane = this.#leaveLane;
    // It holds the message, and the call outlives that by far.
    this.#leaveLane = () => {};
    leaveLane();
  }
}

/** A call that tells when the connection has taken its message. */
class ToldCall extends InterceptingCall {
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
