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
  /** Its end, in milliseconds by the clock of the store: it only identifies the order. */
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
 * Carries the orders of operators among gateways that share a store. It keeps which orders hold for those that start
 * later. An order reaches the gateway that gave it as it reaches all others, as a follower.
 */
export type OrderBoard = {
  /** Resolves to whether the order was taken; false while the store is away. It never rejects. */
  give(order: EndpointOrder): Promise<boolean>;
  /**
   * Calls `follower` with orders from now on. Resolves once it has been called with those that hold now, or when the
   * store is away, and it will be called later. The result ends the following.
   */
  follow(follower: OrderFollower): Promise<() => void>;
};
