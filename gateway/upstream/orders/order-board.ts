import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** An order of an operator about the endpoints at an address. */
export type EndpointOrder = {
  /** The address of the endpoints, `host:port`. */
  readonly address: string;
} & (
  | {
      /**
       * Whether the endpoints are to get no new requests (`drain`), whether that is taken back (`undrain`), or whether
       * their ejection, by an order or by how their calls ended, is to end (`uneject`).
       */
      readonly order: "drain" | "undrain" | "uneject";
    }
  | {
      /** Says that the endpoints are to get no new requests for a while, as those that were found to be outliers. */
      readonly order: "eject";
      /** The time after which they get requests again, in milliseconds. */
      readonly forMs: number;
    }
);

/** An ejection that an operator has ordered, and that has not ended. */
export type OrderedEjection = {
  /** The address of the endpoints, `host:port`. */
  readonly address: string;
  /** Its end, in milliseconds by the clock of whoever keeps orders: it only tells one order from another. */
  readonly endsAtMs: number;
  /** The time until its end, in milliseconds. */
  readonly leftMs: number;
};

/** The orders that hold until they are taken back, or end. */
export type StandingOrders = {
  /** The addresses that are drained. */
  readonly drained: readonly string[];
  /** The ejections that were ordered. */
  readonly ejected: readonly OrderedEjection[];
};

/** The gateway as one who follows the orders that were given to any gateway. */
export type OrderFollower = {
  /** Called with all orders that hold: at first, and whenever that may have changed. */
  standing(orders: StandingOrders): void;
  /** Called when whatever ejected the endpoints at an address is to be forgotten. */
  unejected(address: string): void;
};

/**
 * Carries the orders of operators among gateways that belong together: the workers on one port, or all that share a
 * store. It keeps which orders hold for those that come later. An order reaches whoever gave it as it reaches all
 * others, as a follower.
 */
export type OrderBoard = {
  /** Resolves to whether the order was taken; false where whoever keeps orders is silent. It never rejects. */
  give(order: EndpointOrder): Promise<boolean>;
  /**
   * Tells `follower` of orders from now on. Resolves once it has been told what holds now, or when whoever keeps orders
   * is silent and will tell it later. The result ends the following.
   */
  follow(follower: OrderFollower): Promise<() => void>;
};

/** Keeps in this process which orders hold, for as long as the process lives, and tells all who follow. */
export class OrderBook implements OrderBoard {
  readonly #clock: Pick<Clock, "nowMs">;
  readonly #drained = new Set<string>();
  /** The ends of the ejections that were ordered, in monotonic milliseconds, by address. */
  readonly #ejected = new Map<string, number>();
  readonly #followers = new Set<OrderFollower>();

  /** Makes a book without orders; `clock` says when an ejection is over. */
  constructor(clock: Pick<Clock, "nowMs">) {
    this.#clock = clock;
  }

  /** Takes an order and tells all followers before it resolves, which is always to true. */
  async give(given: EndpointOrder): Promise<boolean> {
    const { order, address } = given;
    if (order === "drain") this.#drained.add(address);
    if (order === "undrain") this.#drained.delete(address);
    if (order === "eject") this.#ejected.set(address, this.#clock.nowMs() + given.forMs);
    if (order === "uneject") this.#ejected.delete(address);
    const standing = this.#standing();
    for (const follower of this.#followers) {
      follower.standing(standing);
      if (order === "uneject") follower.unejected(address);
    }
    return true;
  }

  /** Tells `follower` which orders hold now, and of orders from now on until the result is called. */
  async follow(follower: OrderFollower): Promise<() => void> {
    this.#followers.add(follower);
    follower.standing(this.#standing());
    return () => this.#followers.delete(follower);
  }

  #standing(): StandingOrders {
    const nowMs = this.#clock.nowMs();
    for (const [address, endsAtMs] of this.#ejected) if (endsAtMs <= nowMs) this.#ejected.delete(address);
    const ejected = [...this.#ejected].map(([address, endsAtMs]) => ({ address, endsAtMs, leftMs: endsAtMs - nowMs }));
    return { drained: [...this.#drained], ejected };
  }
}
