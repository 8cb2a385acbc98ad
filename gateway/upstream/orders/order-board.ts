/** An operator's order for the endpoints at an address. */
export type EndpointOrder = {
  /** The address of the endpoints, `host:port`. */
  readonly address: string;
} & (
  | {
      /**
       * `drain`: the endpoints get no new requests; `undrain`: ends that; `uneject`: ends their ejection, whether
       * ordered or by outlier detection.
       */
      readonly order: "drain" | "undrain" | "uneject";
    }
  | {
      /** `eject`: the endpoints get no new requests for a while, as ejected outliers. */
      readonly order: "eject";
      /** The duration of the ejection, in milliseconds. */
      readonly forMs: number;
    }
);

/** An ordered ejection that has not ended. */
export type OrderedEjection = {
  /** The address of the endpoints, `host:port`. */
  readonly address: string;
  /** Its end, in milliseconds by the clock of the store: it only identifies the order. */
  readonly endsAtMs: number;
  /** The time until its end, in milliseconds. */
  readonly leftMs: number;
};

/** The orders in force, until they are revoked or end. */
export type StandingOrders = {
  /** The drained addresses. */
  readonly drained: readonly string[];
  /** The ordered ejections. */
  readonly ejected: readonly OrderedEjection[];
};

/** A gateway that follows the orders given at any gateway. */
export type OrderFollower = {
  /** Called with all orders in force, at first and after every possible change. */
  standing(orders: StandingOrders): void;
  /** Called when every ejection of the endpoints at an address must end. */
  unejected(address: string): void;
};

/**
 * Distributes operators' orders among gateways that share a store, and keeps the orders in force for those that start
 * later. An order reaches the gateway that gave it as it reaches all others, as a follower.
 */
export type OrderBoard = {
  /** Resolves to whether the order was stored; false while the store is unavailable. Never rejects. */
  give(order: EndpointOrder): Promise<boolean>;
  /**
   * Calls `follower` with orders from now on. Resolves after the first call with the orders in force, or while the
   * store is unavailable, and then calls it later. The result ends the following.
   */
  follow(follower: OrderFollower): Promise<() => void>;
};
