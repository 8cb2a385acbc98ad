import { errnoOf } from "../../deploy/runtime/files/errno.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type RedisClient, type RedisClients, redisClients } from "./redis-options.ts";
import type { RedisScript } from "./redis-script.ts";
import type { RedisSettings } from "./state-settings.ts";

export type RedisStateOptions = {
  readonly settings: RedisSettings;
  /** Clock of the timeouts. */
  readonly clock: Clock;
  /** Called with undefined when changed certificates are in use for new connections, else with why they are not. */
  readonly onReload: (fault: string | undefined) => void;
};

/** The store did not answer in time. */
export class StoreTimeout extends Error {
  override readonly name = "StoreTimeout";
}

/** One gateway's connection to the store that gateways share. */
export class RedisState {
  readonly #options: RedisStateOptions;
  readonly #clients: RedisClients;
  readonly #client: RedisClient;
  #subscriber: RedisClient | undefined;
  /** Listeners by channel. */
  readonly #listeners = new Map<string, (message: string) => void>();
  #fault: string | undefined;
  /** Since when answers have been late, in monotonic milliseconds; undefined after an answer in time. */
  #lateSinceMs: number | undefined;

  /** Throws `ConfigError` if a file of the settings is unusable. */
  constructor(options: RedisStateOptions) {
    this.#options = options;
    this.#clients = redisClients(options.settings, options.clock, options.onReload);
    this.#client = this.#newClient();
  }

  get settings(): RedisSettings {
    return this.#options.settings;
  }

  /** Error code of the last failed connection, without hosts; undefined while connected. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /**
   * Resolves when the store accepts commands, or after `connectTimeoutMs`; connecting then continues in the background.
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

  /** Returns the prefixed name of an entry. */
  nameOf(name: string): string {
    return this.settings.keyPrefix + name;
  }

  /**
   * Runs a script with one argument on these entries, which share a hash tag. Rejects if the store fails or is
   * unreachable, as `ask` does; the script may have run nevertheless, or may run later.
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
   * Sends a command. Rejects if it fails or the store is unreachable: an answer that is late after `commandTimeoutMs`
   * is awaited once more as long, unless an earlier answer was late when the command was sent.
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
   * Calls `listener`, the only one of a channel, with each message once the subscription is established; messages may
   * be lost.
   */
  subscribe(channel: string, listener: (message: string) => void): void {
    const name = this.nameOf(channel);
    this.#listeners.set(name, listener);
    if (this.#subscriber) {
      // If there is no connection now, all channels are subscribed once there is.
      void this.#subscriber.subscribe(name).catch(() => {});
      return;
    }
    const subscriber = this.#newClient();
    this.#subscriber = subscriber;
    subscriber.on("message", (from: string, message: string) => this.#listeners.get(from)?.(message));
    subscriber.on("ready", () => void subscriber.subscribe(...this.#listeners.keys()).catch(() => {}));
    void subscriber.connect().catch(() => {});
  }

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

/** Returns an error as text without hosts: a code of the system, or the first word of the store's reply. */
export function faultOf(error: unknown): string {
  if (error instanceof StoreTimeout) return "timeout";
  const ownWord = error instanceof Error ? /^[A-Z]{3,}(?= )/.exec(error.message)?.[0] : undefined;
  return errnoOf(error) || (ownWord ?? "unreachable");
}
