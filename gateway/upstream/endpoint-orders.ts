import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { ClusterManager } from "./cluster-manager.ts";
import type { EndpointOrder, OrderBoard, OrderedEjection } from "./orders/order-board.ts";

/** The part of the clusters that orders act on. */
type OrderedClusters = Pick<ClusterManager, "clusters" | "drained" | "setDrained">;

/** An ejection in force here: its order, and its end in monotonic milliseconds. */
type Obeyed = { readonly endsAtMs: number | undefined; readonly untilMs: number };

/** Applies operators' orders for endpoints: those given here and, over a board, those given at other gateways. */
export class EndpointOrders {
  readonly #clusters: OrderedClusters;
  readonly #board: OrderBoard | undefined;
  readonly #clock: Pick<Clock, "nowMs">;
  /** The ordered ejections, by address. */
  #ejected: ReadonlyMap<string, Obeyed> = new Map();
  #unfollow = () => {};

  private constructor(clusters: OrderedClusters, board: OrderBoard | undefined, clock: Pick<Clock, "nowMs">) {
    this.#clusters = clusters;
    this.#board = board;
    this.#clock = clock;
  }

  /**
   * Follows the orders on `board`, and resolves once those in force are applied to `clusters`: a gateway that takes
   * requests before that would send them to drained endpoints. Without a board, orders are kept only in this process.
   * `clock` is that of the clusters.
   */
  static async open(
    clusters: OrderedClusters,
    board: OrderBoard | undefined,
    clock: Pick<Clock, "nowMs">,
  ): Promise<EndpointOrders> {
    const orders = new EndpointOrders(clusters, board, clock);
    if (board)
      orders.#unfollow = await board.follow({
        standing({ drained, ejected }) {
          clusters.setDrained(new Set(drained));
          orders.#setEjected(ejected);
        },
        unejected: (address) => orders.#uneject(address),
      });
    return orders;
  }

  /**
   * Gives an order to all gateways that share the board. Resolves to false while the store behind it is unavailable:
   * then the order is applied here, and at the others when the store is back.
   */
  async give(given: EndpointOrder): Promise<boolean> {
    if (await this.#board?.give(given)) return true;
    this.#obeyHere(given);
    return this.#board === undefined;
  }

  /** Stops following the orders of others. */
  close(): void {
    this.#unfollow();
  }

  #obeyHere(given: EndpointOrder): void {
    const { order, address } = given;
    switch (order) {
      case "drain":
        this.#clusters.setDrained(new Set([...this.#clusters.drained, address]));
        return;
      case "undrain":
        this.#clusters.setDrained(new Set([...this.#clusters.drained].filter((one) => one !== address)));
        return;
      case "eject":
        this.#obey(new Map(this.#ejected).set(address, this.#endingIn(given.forMs, undefined)));
        return;
      case "uneject":
        this.#obey(new Map([...this.#ejected].filter(([one]) => one !== address)));
        this.#uneject(address);
        return;
      default:
        order satisfies never;
    }
  }

  /** Applies the ejections in force. A known one keeps its end, regardless of the delay of the message. */
  #setEjected(ejected: readonly OrderedEjection[]): void {
    const obeyed = ejected.map(({ address, endsAtMs, leftMs }) => {
      const known = this.#ejected.get(address);
      return [address, known?.endsAtMs === endsAtMs ? known : this.#endingIn(leftMs, endsAtMs)] as const;
    });
    this.#obey(new Map(obeyed));
  }

  #endingIn(leftMs: number, endsAtMs: number | undefined): Obeyed {
    return { endsAtMs, untilMs: this.#clock.nowMs() + leftMs };
  }

  #obey(ejected: ReadonlyMap<string, Obeyed>): void {
    const nowMs = this.#clock.nowMs();
    this.#ejected = new Map([...ejected].filter(([, { untilMs }]) => untilMs > nowMs));
    const ends = new Map([...this.#ejected].map(([address, { untilMs }]) => [address, untilMs]));
    for (const { outliers } of this.#clusters.clusters) outliers.setOrdered(ends, nowMs);
  }

  #uneject(address: string): void {
    for (const { outliers } of this.#clusters.clusters) outliers.uneject(address);
  }
}
