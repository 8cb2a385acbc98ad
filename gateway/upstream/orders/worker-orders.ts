import { OpenQuestions } from "../../../deploy/runtime/process/open-questions.ts";
import type { Channel } from "../../../deploy/runtime/process/process-channel.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { EndpointOrder, OrderBoard, OrderFollower, StandingOrders } from "./order-board.ts";

/** The field by which messages about orders are told from others on the same process channel. */
export const ORDERS_TOPIC = "orders";

/** What a gateway worker says to the process that keeps the orders of all. The worker uses each `id` once. */
export type OrderRequest = {
  /** The id of the request, by which it is answered. */
  readonly id: number;
} & (
  | { readonly orders: "follow" }
  | {
      readonly orders: "give";
      /** The order that an operator gave to the worker. */
      readonly given: EndpointOrder;
    }
);

/** What the process that keeps orders tells a worker: `taken` answers, the others are for who follows. */
export type OrderReply =
  | { readonly orders: "taken"; readonly id: number }
  | { readonly orders: "standing"; readonly standing: StandingOrders }
  | { readonly orders: "unejected"; readonly address: string };

/**
 * Answers the gateway worker at the other end of `channel` from `board`. The returned function is to be called when the
 * worker has ended.
 */
export function answerOrders(board: OrderBoard, channel: Channel<OrderReply, OrderRequest>): () => void {
  const follower: OrderFollower = {
    standing: (standing) => channel.send({ orders: "standing", standing }),
    unejected: (address) => channel.send({ orders: "unejected", address }),
  };
  let attached = true;
  let unfollow = () => {};
  const answer = async (request: OrderRequest): Promise<void> => {
    if (request.orders === "give") {
      if (!(await board.give(request.given))) return;
    } else {
      const end = await board.follow(follower);
      if (attached) unfollow = end;
      else end();
    }
    channel.send({ orders: "taken", id: request.id });
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
  readonly #questions: OpenQuestions<true>;
  #follower: OrderFollower | undefined;

  /** Makes the board at the worker's end of `channel`; `clock` times the other end's answers. */
  constructor(channel: Channel<OrderRequest, OrderReply>, clock: Pick<Clock, "after">) {
    this.#channel = channel;
    this.#questions = new OpenQuestions(clock);
    channel.onMessage((reply) => this.#take(reply));
  }

  /** Passes an order on. Resolves to whether it was answered within a second. */
  async give(given: EndpointOrder): Promise<boolean> {
    const taken = await this.#questions.ask((id) => this.#channel.send({ orders: "give", id, given }));
    return taken ?? false;
  }

  /** Follows what all workers were ordered, as the one follower of this worker. */
  async follow(follower: OrderFollower): Promise<() => void> {
    this.#follower = follower;
    await this.#questions.ask((id) => this.#channel.send({ orders: "follow", id }));
    return () => {
      this.#follower = undefined;
    };
  }

  #take(reply: OrderReply): void {
    switch (reply.orders) {
      case "taken":
        this.#questions.answer(reply.id, true);
        return;
      case "standing":
        this.#follower?.standing(reply.standing);
        return;
      case "unejected":
        this.#follower?.unejected(reply.address);
        return;
      default:
        reply satisfies never;
    }
  }
}
