import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { RedisState } from "../state/redis-state.ts";
import type { ClusterManager } from "./cluster/cluster-manager.ts";

const DRAINED = "orders:drained";
/** The name of the sorted set of all ejected addresses, each with its end by the store's own time. */
const EJECTED = "orders:ejected";
/** The channel of messages: an address whose ejection ends, or empty where the sets have changed. */
const CHANNEL = "orders";
/** The polling interval of the sets, as messages may be lost. */
const POLL_MS = 1_000;

/**
 * `drain`: no new requests, until `undrain`; `eject`: none for `forMs` milliseconds, as for outliers; `uneject`: ends any
 * ejection, ordered or by outlier detection.
 */
export type EndpointOrder =
  | { readonly address: string; readonly order: "drain" | "undrain" | "uneject" }
  | { readonly address: string; readonly order: "eject"; readonly forMs: number };

type OrderedClusters = Pick<ClusterManager, "clusters" | "drained" | "setDrained">;

/** An ejection in force here: its end by the store's time, which identifies it, and in monotonic milliseconds. */
type Ejection = { readonly storedEndMs: number | undefined; readonly untilMs: number };

/**
 * Applies operators' orders for endpoints: those given here and, where gateways share a store, those given at any of
 * them, until they are revoked or end. An order given while the store is unavailable applies here at once, and reaches
 * the others when the store is back.
 */
export class EndpointOrders {
  readonly #clusters: OrderedClusters;
  readonly #state: RedisState | undefined;
  readonly #clock: Pick<Clock, "after" | "nowMs">;
  /** The ordered ejections in force, by address. */
  #ejected: ReadonlyMap<string, Ejection> = new Map();
  /** The drains not yet stored: by address, whether it is drained. */
  readonly #owedDrains = new Map<string, boolean>();
  /** The ejections not yet stored: by address, their end in monotonic milliseconds; undefined for a revoked one. */
  readonly #owedEjections = new Map<string, number | undefined>();
  #polled: Promise<void> = Promise.resolve();
  #cancelPoll = () => {};
  #closed = false;

  private constructor(clusters: OrderedClusters, state: RedisState | undefined, clock: Pick<Clock, "after" | "nowMs">) {
    this.#clusters = clusters;
    this.#state = state;
    this.#clock = clock;
  }

  /**
   * Resolves once the orders in `state` are applied to `clusters`, or it is unavailable: a gateway that takes requests
   * earlier would send them to drained endpoints. Without a store, orders are kept only in this process.
   */
  static async open(
    clusters: OrderedClusters,
    state: RedisState | undefined,
    clock: Pick<Clock, "after" | "nowMs">,
  ): Promise<EndpointOrders> {
    const orders = new EndpointOrders(clusters, state, clock);
    if (state) {
      state.subscribe(CHANNEL, (address) => {
        if (address === "") void orders.#poll();
        else orders.#uneject(address);
      });
      await orders.#poll();
      orders.#pollLater();
    }
    return orders;
  }

  async give(given: EndpointOrder): Promise<boolean> {
    const { order, address } = given;
    if (await this.#store(given)) return true;
    switch (order) {
      case "drain":
        this.#clusters.setDrained(new Set([...this.#clusters.drained, address]));
        break;
      case "undrain":
        this.#clusters.setDrained(new Set([...this.#clusters.drained].filter((one) => one !== address)));
        break;
      case "eject": {
        const untilMs = this.#clock.nowMs() + given.forMs;
        this.#setEjected(new Map(this.#ejected).set(address, { storedEndMs: undefined, untilMs }));
        break;
      }
      case "uneject":
        this.#setEjected(new Map([...this.#ejected].filter(([one]) => one !== address)));
        this.#uneject(address);
        break;
      default:
        order satisfies never;
    }
    return this.#state === undefined;
  }

  close(): void {
    this.#closed = true;
    this.#cancelPoll();
  }

  #setEjected(ejected: ReadonlyMap<string, Ejection>): void {
    const nowMs = this.#clock.nowMs();
    this.#ejected = new Map([...ejected].filter(([, { untilMs }]) => untilMs > nowMs));
    const ends = new Map([...this.#ejected].map(([address, { untilMs }]) => [address, untilMs]));
    for (const { outliers } of this.#clusters.clusters) outliers.setOrdered(ends, nowMs);
  }

  #uneject(address: string): void {
    if (this.#closed) return;
    for (const { outliers } of this.#clusters.clusters) outliers.uneject(address);
  }

  /** Resolves to whether the order was stored, and so applied everywhere. */
  async #store(given: EndpointOrder): Promise<boolean> {
    if (!this.#state) return false;
    const { order, address } = given;
    if (order === "drain" || order === "undrain") {
      this.#owedDrains.set(address, order === "drain");
      await this.#poll();
      return !this.#owedDrains.has(address);
    }
    this.#owedEjections.set(address, order === "eject" ? this.#clock.nowMs() + given.forMs : undefined);
    await this.#poll();
    if (this.#owedEjections.has(address)) return false;
    if (order === "eject") return true;
    const published = await this.#publish(address);
    // The gateway's own message may be lost, too.
    if (published) this.#uneject(address);
    return published;
  }

  #pollLater(): void {
    if (this.#closed) return;
    this.#cancelPoll = this.#clock.after(POLL_MS, () => void this.#poll().then(() => this.#pollLater()));
  }

  /** Polls after the pending poll has ended. Never rejects. */
  #poll(): Promise<void> {
    const state = this.#state;
    if (state) this.#polled = this.#polled.then(() => this.#exchange(state)).catch(() => {});
    return this.#polled;
  }

  /** Stores the owed orders, and applies the stored ones. Rejects while the store is unavailable. */
  async #exchange(state: RedisState): Promise<void> {
    const [drainedName, ejectedName] = [state.nameOf(DRAINED), state.nameOf(EJECTED)];
    for (const [address, drain] of [...this.#owedDrains]) {
      await state.ask((client) => (drain ? client.sadd(drainedName, address) : client.srem(drainedName, address)));
      if (this.#owedDrains.get(address) === drain) this.#owedDrains.delete(address);
      await this.#publish("");
    }
    for (const [address, endMs] of [...this.#owedEjections]) {
      await this.#storeEjection(state, address, endMs);
      if (this.#owedEjections.get(address) === endMs) this.#owedEjections.delete(address);
      await this.#publish("");
    }
    const [addresses, ends, now] = await state.ask((client) =>
      Promise.all([client.smembers(drainedName), client.zrange(ejectedName, "0", "-1", "WITHSCORES"), client.time()]),
    );
    const storeNowMs = msOf(now);
    const ejected = this.#ejectionsOf(ends, storeNowMs);
    if (ends.length > 2 * ejected.size)
      await state.ask((client) => client.zremrangebyscore(ejectedName, "-inf", String(storeNowMs)));
    if (this.#closed) return;
    const drained = new Set(addresses);
    for (const [address, drain] of this.#owedDrains) {
      if (drain) drained.add(address);
      else drained.delete(address);
    }
    this.#clusters.setDrained(drained);
    this.#setEjected(ejected);
  }

  /** Stores the end of an ejection, by the store's own time, or its revocation. */
  async #storeEjection(state: RedisState, address: string, endMs: number | undefined): Promise<void> {
    const name = state.nameOf(EJECTED);
    const leftMs = endMs === undefined ? 0 : endMs - this.#clock.nowMs();
    if (leftMs <= 0) {
      await state.ask((client) => client.zrem(name, address));
      return;
    }
    const nowMs = msOf(await state.ask((client) => client.time()));
    await state.ask((client) => client.zadd(name, Math.round(nowMs + leftMs), address));
  }

  /** Returns the stored ejections that have not ended. A known one keeps its end here, regardless of delays. */
  #ejectionsOf(ends: readonly string[], storeNowMs: number): ReadonlyMap<string, Ejection> {
    const ejected = new Map<string, Ejection>();
    for (let at = 0; at < ends.length; at += 2) {
      const [address = "", storedEndMs] = [ends[at], Number(ends[at + 1])];
      if (storedEndMs <= storeNowMs) continue;
      const known = this.#ejected.get(address);
      const untilMs = this.#clock.nowMs() + storedEndMs - storeNowMs;
      ejected.set(address, known?.storedEndMs === storedEndMs ? known : { storedEndMs, untilMs });
    }
    return ejected;
  }

  /** Publishes a message to all gateways that share the store. Resolves to whether the store accepted it. */
  async #publish(message: string): Promise<boolean> {
    const state = this.#state;
    if (!state) return false;
    const channel = state.nameOf(CHANNEL);
    return await state
      .ask((client) => client.publish(channel, message))
      .then(
        () => true,
        () => false,
      );
  }
}

/** Returns a store's time of seconds and microseconds in milliseconds since the epoch. */
function msOf([seconds = 0, microseconds = 0]: readonly (number | string)[]): number {
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}
