import type { ClusterManager } from "./cluster-manager.ts";
import type { EndpointOrder, OrderBoard } from "./orders/order-board.ts";

/** What orders do to the endpoints of a gateway. */
type OrderedClusters = Pick<ClusterManager, "clusters" | "drained" | "setDrained">;

/** Does in this gateway what operators order of endpoints here and, over a board, at other gateways. */
export class EndpointOrders {
  readonly #clusters: OrderedClusters;
  readonly #board: OrderBoard;
  #unfollow = () => {};

  private constructor(clusters: OrderedClusters, board: OrderBoard) {
    this.#clusters = clusters;
    this.#board = board;
  }

  /**
   * Follows the orders on `board`, and resolves once what they drain is drained in `clusters`: a gateway that takes
   * requests before that would send them where none are to go.
   */
  static async open(clusters: OrderedClusters, board: OrderBoard): Promise<EndpointOrders> {
    const orders = new EndpointOrders(clusters, board);
    orders.#unfollow = await board.follow({
      drained: (addresses) => clusters.setDrained(new Set(addresses)),
      unejected: (address) => orders.#uneject(address),
    });
    return orders;
  }

  /**
   * Has an order obeyed by all gateways that share the board. Resolves to false where the board is silent: then the order
   * is obeyed here, and the others follow when the board goes on.
   */
  async give(given: EndpointOrder): Promise<boolean> {
    if (await this.#board.give(given)) return true;
    const { order, address } = given;
    if (order === "uneject") {
      this.#uneject(address);
      return false;
    }
    const drained = new Set(this.#clusters.drained);
    if (order === "drain") drained.add(address);
    else drained.delete(address);
    this.#clusters.setDrained(drained);
    return false;
  }

  /** Stops following the orders of others. */
  close(): void {
    this.#unfollow();
  }

  #uneject(address: string): void {
    for (const { outliers } of this.#clusters.clusters) outliers.uneject(address);
  }
}
