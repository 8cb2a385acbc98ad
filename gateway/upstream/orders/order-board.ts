/** An order of an operator about the endpoints at an address. */
export type EndpointOrder = {
  /**
   * Whether the endpoints are to get no new requests (`drain`), whether that is taken back (`undrain`), or whether their
   * ejection is to end (`uneject`).
   */
  readonly order: "drain" | "undrain" | "uneject";
  /** The address of the endpoints, `host:port`. */
  readonly address: string;
};

/** The gateway as one who follows the orders that were given to any gateway. */
export type OrderFollower = {
  /** Called with all addresses that are drained by order: at first, and whenever that may have changed. */
  drained(addresses: readonly string[]): void;
  /** Called when the ejection of the endpoints at an address is to end. */
  unejected(address: string): void;
};

/**
 * Carries the orders of operators among gateways that belong together: the workers on one port, or all that share a
 * store. It keeps which addresses are drained for those that come later. An order reaches whoever gave it as it reaches
 * all others, as a follower.
 */
export type OrderBoard = {
  /** Resolves to whether the order was taken; false where whoever keeps orders is silent. It never rejects. */
  give(order: EndpointOrder): Promise<boolean>;
  /**
   * Tells `follower` of orders from now on. Resolves once it has been told what is drained now, or when whoever keeps
   * orders is silent and will tell it later. The result ends the following.
   */
  follow(follower: OrderFollower): Promise<() => void>;
};

/** Keeps in this process what is drained by order, for as long as the process lives, and tells all who follow. */
export class OrderBook implements OrderBoard {
  readonly #drained = new Set<string>();
  readonly #followers = new Set<OrderFollower>();

  /** Takes an order and tells all followers before it resolves, which is always to true. */
  async give({ order, address }: EndpointOrder): Promise<boolean> {
    if (order === "drain") this.#drained.add(address);
    if (order === "undrain") this.#drained.delete(address);
    for (const follower of this.#followers) {
      if (order === "uneject") follower.unejected(address);
      else follower.drained([...this.#drained]);
    }
    return true;
  }

  /** Tells `follower` what is drained now, and of orders from now on until the result is called. */
  async follow(follower: OrderFollower): Promise<() => void> {
    this.#followers.add(follower);
    follower.drained([...this.#drained]);
    return () => this.#followers.delete(follower);
  }
}
