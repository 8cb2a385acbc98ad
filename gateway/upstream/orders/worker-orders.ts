import type { Channel } from "../../../deploy/runtime/process/process-channel.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { EndpointOrder, OrderBoard, OrderFollower } from "./order-board.ts";

/** The field by which messages about orders are told from others on the same process channel. */
export const ORDERS_TOPIC = "orders";

/**
 * The time, in milliseconds, after which the process that keeps orders counts as silent. On the same machine it answers
 * in a fraction of a millisecond: one that takes so long is stuck.
 */
const ANSWER_MS = 1_000;

/** What a gateway worker says to the process that keeps the orders of all. The worker uses each `id` once. */
export type OrderRequest =
  | { readonly orders: "follow" }
  | {
      readonly orders: "give";
      /** The id of the request, by which it is answered. */
      readonly id: number;
      /** The order that an operator gave to the worker. */
      readonly given: EndpointOrder;
    };

/** What the process that keeps orders tells a worker: `taken` answers `give`, the others are for who follows. */
export type OrderReply =
  | { readonly orders: "taken"; readonly id: number }
  | { readonly orders: "drained"; readonly addresses: readonly string[] }
  | { readonly orders: "unejected"; readonly address: string };

/**
 * Answers the gateway worker at the other end of `channel` from `board`. The returned function is to be called when the
 * worker has ended.
 */
export function answerOrders(board: OrderBoard, channel: Channel<OrderReply, OrderRequest>): () => void {
  const follower: OrderFollower = {
    drained: (addresses) => channel.send({ orders: "drained", addresses }),
    unejected: (address) => channel.send({ orders: "unejected", address }),
  };
  let attached = true;
  let unfollow = () => {};
  const answer = async (request: OrderRequest): Promise<void> => {
    if (request.orders === "give") {
      if (await board.give(request.given)) channel.send({ orders: "taken", id: request.id });
      return;
    }
    const end = await board.follow(follower);
    if (attached) unfollow = end;
    else end();
  };
  channel.onMessage((request) => {
    if (attached) void answer(request);
  });
  return () => {
    attached = false;
    unfollow();
  };
}

/**
 * The board of one gateway worker, which the process that started it keeps. An order that this process does not answer
 * within a second is not lost: it reaches the other workers when the process goes on.
 */
export class WorkerOrders implements OrderBoard {
  readonly #channel: Channel<OrderRequest, OrderReply>;
  readonly #clock: Pick<Clock, "after">;
  readonly #unanswered = new Map<number, () => void>();
  #follower: OrderFollower | undefined;
  #toldDrained: () => void = () => {};
  #lastId = 0;

  /** Makes the board at the worker's end of `channel`; `clock` times the other end's answers. */
  constructor(channel: Channel<OrderRequest, OrderReply>, clock: Pick<Clock, "after">) {
    this.#channel = channel;
    this.#clock = clock;
    channel.onMessage((reply) => this.#take(reply));
  }

  /** Passes an order on. Resolves to whether it was answered within a second. */
  give(given: EndpointOrder): Promise<boolean> {
    this.#lastId += 1;
    const id = this.#lastId;
    return this.#within((answered) => {
      this.#unanswered.set(id, answered);
      this.#channel.send({ orders: "give", id, given });
    });
  }

  /** Follows what all workers were ordered, as the one follower of this worker. */
  async follow(follower: OrderFollower): Promise<() => void> {
    this.#follower = follower;
    await this.#within((answered) => {
      this.#toldDrained = answered;
      this.#channel.send({ orders: "follow" });
    });
    return () => {
      this.#follower = undefined;
    };
  }

  /** Resolves to whether what `ask` was given has been called within a second. */
  #within(ask: (answered: () => void) => void): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ANSWER_MS, () => resolve(false));
      ask(() => {
        cancel();
        resolve(true);
      });
    });
  }

  #take(reply: OrderReply): void {
    switch (reply.orders) {
      case "taken":
        this.#unanswered.get(reply.id)?.();
        this.#unanswered.delete(reply.id);
        return;
      case "drained":
        this.#follower?.drained(reply.addresses);
        this.#toldDrained();
        return;
      case "unejected":
        this.#follower?.unejected(reply.address);
        return;
      default:
        reply satisfies never;
    }
  }
}
