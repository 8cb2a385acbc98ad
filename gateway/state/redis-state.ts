import { errnoOf } from "../../deploy/runtime/files/errno.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type RedisClient, type RedisClients, redisClients } from "./redis-options.ts";
import type { RedisScript } from "./redis-script.ts";
import type { RedisSettings } from "./state-settings.ts";

/** What a connection to the store works with. */
export type RedisStateOptions = {
  /** The settings of the store. */
  readonly settings: RedisSettings;
  /** The clock by which answers are late. */
  readonly clock: Clock;
  /** Called with undefined when changed certificates were taken for further connections, else with why they were not. */
  readonly onReload: (fault: string | undefined) => void;
};

/** The error for a store whose answers do not come in time. */
export class StoreTimeout extends Error {
  override readonly name = "StoreTimeout";
}

/** The store that gateways share, as one of them is connected to it. */
export class RedisState {
  readonly #options: RedisStateOptions;
  readonly #clients: RedisClients;
  readonly #client: RedisClient;
  #subscriber: RedisClient | undefined;
  /** The listeners by the names of their channels. */
  readonly #listeners = new Map<string, (message: string) => void>();
  #fault: string | undefined;
  /** The time from which on answers have been late, by the clock's monotonic milliseconds; undefined after one in time. */
  #lateSinceMs: number | undefined;

  /** Prepares a connection. Throws `ConfigError` where a file of the settings cannot be used. */
  constructor(options: RedisStateOptions) {
    this.#options = options;
    this.#clients = redisClients(options.settings, options.clock, options.onReload);
    this.#client = this.#newClient();
  }

  /** The settings of the store. */
  get settings(): RedisSettings {
    return this.#options.settings;
  }

  /** The reason for which the last connection failed, as a code without hosts; undefined while there is a connection. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /**
   * Resolves when the store takes commands, or when it does not after `connectTimeoutMs`; it is connected to in the
   * background then.
   */
  async connect(): Promise<void> {
    const connected = this.#client.connect().catch(() => {});
    let cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.#options.clock.after(this.settings.connectTimeoutMs, resolve);
    });
    await Promise.race([connected, late]);
    cancel();
  }

  /** Returns the name of an entry in the store. */
  nameOf(name: string): string {
    return this.settings.keyPrefix + name;
  }

  /**
   * Runs a script on these entries, which share a hash tag, with one argument. Rejects where the store does not take it,
   * or is away, as `ask` says; the script may have run all the same, or may run later.
   */
  async run(script: RedisScript, names: readonly string[], argument: string): Promise<unknown> {
    const keys = names.map((name) => this.nameOf(name));
    return await this.ask(async (client) => {
      try {
        return await client.evalsha(script.sha, keys.length, ...keys, argument);
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
        return await client.eval(script.text, keys.length, ...keys, argument);
      }
    });
  }

  /**
   * Asks the store something. Rejects where it fails, or is away: an answer that is late after `commandTimeoutMs` is waited
   * for once more as long, unless the question was asked after another answer was late already.
   */
  async ask<T>(question: (client: RedisClient) => Promise<T>): Promise<T> {
    const { clock } = this.#options;
    const { commandTimeoutMs } = this.settings;
    const askedAtMs = clock.nowMs();
    let isLate = false;
    let cancel = () => {};
    const away = new Promise<never>((_resolve, reject) => {
      const giveUp = () => reject(new StoreTimeout());
      cancel = clock.after(commandTimeoutMs, () => {
        isLate = true;
        if (this.#lateSinceMs !== undefined && this.#lateSinceMs <= askedAtMs) return giveUp();
        this.#lateSinceMs ??= clock.nowMs();
        cancel = clock.after(commandTimeoutMs, giveUp);
      });
    });
    try {
      const answer = await Promise.race([question(this.#client), away]);
      if (!isLate) this.#lateSinceMs = undefined;
      return answer;
    } finally {
      cancel();
    }
  }

  /**
   * Calls `listener`, of which a channel has one, with each message of the channel from when it could be subscribed to;
   * messages may be lost.
   */
  subscribe(channel: string, listener: (message: string) => void): void {
    const name = this.nameOf(channel);
    this.#listeners.set(name, listener);
    if (this.#subscriber) {
      // Where it is not connected now, all are subscribed to once it is.
      void this.#subscriber.subscribe(name).catch(() => {});
      return;
    }
    const subscriber = this.#newClient();
    this.#subscriber = subscriber;
    subscriber.on("message", (from: string, message: string) => this.#listeners.get(from)?.(message));
    subscriber.on("ready", () => void subscriber.subscribe(...this.#listeners.keys()).catch(() => {}));
    void subscriber.connect().catch(() => {});
  }

  /** Ends the connections. */
  close(): void {
    this.#clients.close();
    this.#client.disconnect();
    this.#subscriber?.disconnect();
  }

  #newClient(): RedisClient {
    const client = this.#clients.make();
    client.on("error", (error: unknown) => {
      this.#fault = faultOf(error);
    });
    client.on("ready", () => {
      this.#fault = undefined;
    });
    return client;
  }
}

/** Returns what an error says without naming a host: a code of the system, or the first word of the store's reply. */
export function faultOf(error: unknown): string {
  if (error instanceof StoreTimeout) return "timeout";
  const ownWord = error instanceof Error ? /^[A-Z]{3,}(?= )/.exec(error.message)?.[0] : undefined;
  return errnoOf(error) || (ownWord ?? "unreachable");
}
