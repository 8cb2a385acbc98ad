import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { RedisState } from "../../state/redis-state.ts";
import type { EndpointOrder, OrderBoard, OrderFollower } from "./order-board.ts";

/** The name of the set of all addresses that are drained by order. */
const DRAINED = "orders:drained";
/** The channel of the messages about orders: an address whose ejection is to end, or nothing where the set has changed. */
const CHANNEL = "orders";
/** The time between two looks at the set, in milliseconds, as messages may be lost. */
const LOOK_MS = 1_000;

/**
 * Keeps what is drained by order in the store that gateways of several hosts share, where it stays until it is undrained.
 * What is ordered while the store is away is taken there when it is back.
 */
export class RedisOrders implements OrderBoard {
  readonly #state: RedisState;
  readonly #clock: Pick<Clock, "after">;
  /** The orders that the store does not have yet: by address, whether it is to be drained. */
  readonly #owed = new Map<string, boolean>();
  readonly #followers = new Set<OrderFollower>();
  #looked: Promise<void> = Promise.resolve();
  #cancelLook = () => {};

  /** Makes the board of the gateway that is connected to `state`; `clock` says when the store is looked at again. */
  constructor(state: RedisState, clock: Pick<Clock, "after">) {
    this.#state = state;
    this.#clock = clock;
  }

  /** Resolves to whether the store has the order. */
  async give({ order, address }: EndpointOrder): Promise<boolean> {
    if (order === "uneject") {
      const told = await this.#tell(address);
      // Its own message may be lost, too.
      if (told) for (const follower of this.#followers) follower.unejected(address);
      return told;
    }
    this.#owed.set(address, order === "drain");
    await this.#look();
    return !this.#owed.has(address);
  }

  /** Tells `follower` what the store has of orders, within a second of each. */
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

  /** Looks once what was asked for before has been looked at. Never rejects. */
  #look(): Promise<void> {
    this.#looked = this.#looked.then(() => this.#exchange()).catch(() => {});
    return this.#looked;
  }

  /** Gives the store what it lacks, and tells followers what it has. Rejects where the store is away. */
  async #exchange(): Promise<void> {
    const state = this.#state;
    const name = state.nameOf(DRAINED);
    for (const [address, drain] of [...this.#owed]) {
      await state.ask((client) => (drain ? client.sadd(name, address) : client.srem(name, address)));
      if (this.#owed.get(address) === drain) this.#owed.delete(address);
      await this.#tell("");
    }
    const drained = new Set(await state.ask((client) => client.smembers(name)));
    for (const [address, drain] of this.#owed) {
      if (drain) drained.add(address);
      else drained.delete(address);
    }
    for (const follower of this.#followers) follower.drained([...drained]);
  }

  /** Sends a message to all who share the store. Resolves to whether the store took it. */
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
