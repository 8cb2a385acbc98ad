import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { RedisState } from "../../state/redis-state.ts";
import type { EndpointOrder, OrderBoard, OrderedEjection, OrderFollower } from "./order-board.ts";

/** The name of the set of all drained addresses. */
const DRAINED = "orders:drained";
/** The name of the sorted set of all ejected addresses, each with its end by the store's own time. */
const EJECTED = "orders:ejected";
/** The channel of order messages: an address whose ejection ends, or empty where the sets have changed. */
const CHANNEL = "orders";
/** The polling interval of the sets, in milliseconds, as messages may be lost. */
const LOOK_MS = 1_000;

/**
 * Stores the orders in force in the store that gateways of several hosts share, until they are revoked or end. An order
 * given while the store is unavailable is stored when it is back.
 */
export class RedisOrders implements OrderBoard {
  readonly #state: RedisState;
  readonly #clock: Pick<Clock, "after" | "nowMs">;
  /** The drains not yet stored: by address, whether it is drained. */
  readonly #owedDrains = new Map<string, boolean>();
  /** The ejections not yet stored: by address, their end in monotonic milliseconds; undefined for a revoked one. */
  readonly #owedEjections = new Map<string, number | undefined>();
  readonly #followers = new Set<OrderFollower>();
  #looked: Promise<void> = Promise.resolve();
  #cancelLook = () => {};

  /** `clock` sets the polling of the store. */
  constructor(state: RedisState, clock: Pick<Clock, "after" | "nowMs">) {
    this.#state = state;
    this.#clock = clock;
  }

  /** Resolves to whether the order was stored. */
  async give(given: EndpointOrder): Promise<boolean> {
    const { order, address } = given;
    if (order === "drain" || order === "undrain") {
      this.#owedDrains.set(address, order === "drain");
      await this.#look();
      return !this.#owedDrains.has(address);
    }
    this.#owedEjections.set(address, order === "eject" ? this.#clock.nowMs() + given.forMs : undefined);
    await this.#look();
    if (this.#owedEjections.has(address)) return false;
    if (order === "eject") return true;
    const told = await this.#tell(address);
    // The gateway's own message may be lost, too.
    if (told) for (const follower of this.#followers) follower.unejected(address);
    return told;
  }

  /** Calls `follower` with the store's orders, within a second of each. */
  async follow(follower: OrderFollower): Promise<() => void> {
    this.#followers.add(follower);
    this.#state.subscribe(CHANNEL, (address) => {
      if (address === "") void this.#look();
      else for (const each of this.#followers) each.unejected(address);
    });
    await this.#look();
    this.#lookLater();
    return () => {
      this.#followers.delete(follower);
      this.#cancelLook();
    };
  }

  #lookLater(): void {
    this.#cancelLook = this.#clock.after(LOOK_MS, () => void this.#look().then(() => this.#lookLater()));
  }

  /** Polls after the pending poll has ended. Never rejects. */
  #look(): Promise<void> {
    this.#looked = this.#looked.then(() => this.#exchange()).catch(() => {});
    return this.#looked;
  }

  /** Stores the missing orders, and calls followers with the stored ones. Rejects while the store is unavailable. */
  async #exchange(): Promise<void> {
    const state = this.#state;
    const [drainedName, ejectedName] = [state.nameOf(DRAINED), state.nameOf(EJECTED)];
    for (const [address, drain] of [...this.#owedDrains]) {
      await state.ask((client) => (drain ? client.sadd(drainedName, address) : client.srem(drainedName, address)));
      if (this.#owedDrains.get(address) === drain) this.#owedDrains.delete(address);
      await this.#tell("");
    }
    for (const [address, endMs] of [...this.#owedEjections]) {
      await this.#giveEjection(address, endMs);
      if (this.#owedEjections.get(address) === endMs) this.#owedEjections.delete(address);
      await this.#tell("");
    }
    const [addresses, ends, now] = await state.ask((client) =>
      Promise.all([client.smembers(drainedName), client.zrange(ejectedName, "0", "-1", "WITHSCORES"), client.time()]),
    );
    const nowMs = msOf(now);
    const ejected = ejectionsOf(ends, nowMs);
    if (ends.length > 2 * ejected.length)
      await state.ask((client) => client.zremrangebyscore(ejectedName, "-inf", String(nowMs)));
    const drained = new Set(addresses);
    for (const [address, drain] of this.#owedDrains) {
      if (drain) drained.add(address);
      else drained.delete(address);
    }
    for (const follower of this.#followers) follower.standing({ drained: [...drained], ejected });
  }

  /** Stores the end of an ejection, by the store's own time, or its revocation. */
  async #giveEjection(address: string, endMs: number | undefined): Promise<void> {
    const name = this.#state.nameOf(EJECTED);
    const leftMs = endMs === undefined ? 0 : endMs - this.#clock.nowMs();
    if (leftMs <= 0) {
      await this.#state.ask((client) => client.zrem(name, address));
      return;
    }
    const nowMs = msOf(await this.#state.ask((client) => client.time()));
    await this.#state.ask((client) => client.zadd(name, Math.round(nowMs + leftMs), address));
  }

  /** Publishes a message to all gateways that share the store. Resolves to whether the store accepted it. */
  async #tell(message: string): Promise<boolean> {
    const channel = this.#state.nameOf(CHANNEL);
    return await this.#state
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

/** Returns the ejections that have not ended, from a list of addresses, each followed by its end. */
function ejectionsOf(ends: readonly string[], nowMs: number): OrderedEjection[] {
  return ends.flatMap((address, at) => {
    const endsAtMs = Number(ends[at + 1]);
    return at % 2 === 0 && endsAtMs > nowMs ? [{ address, endsAtMs, leftMs: endsAtMs - nowMs }] : [];
  });
}
