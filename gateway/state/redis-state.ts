import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Redis, type RedisOptions } from "ioredis";
import { ConfigError } from "../../deploy/runtime/config/load-config.ts";
import { errnoOf, FileError, readPrivateFileSync } from "../../deploy/runtime/files/private-file.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { RedisSettings } from "./state-settings.ts";

/** Milliseconds after which a connection attempt is abandoned and repeated. */
const CONNECT_TIMEOUT_MS = 2_000;
/**
 * Milliseconds after which an answer is late. The store counts as unreachable when two consecutive answers are late, or
 * one takes twice as long: a moment of load is neither.
 */
const COMMAND_TIMEOUT_MS = 1_000;
/** Longest time between two connection attempts, in milliseconds. */
const MAX_RETRY_MS = 1_000;

export type RedisClient = Redis;

export type RedisStateOptions = {
  readonly settings: RedisSettings;
  readonly clock: Clock;
  /** Milliseconds after which an answer is late; default: 1,000. */
  readonly commandTimeoutMs?: number;
};

/** A Lua script, which the store runs atomically. */
export class RedisScript {
  readonly text: string;
  /** SHA-1 of the text in hex, for EVALSHA. */
  readonly sha: string;

  constructor(text: string) {
    this.text = text;
    this.sha = hash("sha1", text);
  }
}

class StoreTimeout extends Error {
  override readonly name = "StoreTimeout";
}

export class RedisState {
  readonly settings: RedisSettings;
  readonly #clock: Clock;
  readonly #commandTimeoutMs: number;
  readonly #clientOptions: ReturnType<typeof clientOptions>;
  readonly #client: Redis;
  #subscriber: Redis | undefined;
  readonly #listeners = new Map<string, (message: string) => void>();
  #fault: string | undefined;
  /** Since when answers have been late, in monotonic milliseconds; undefined after an answer in time. */
  #lateSinceMs: number | undefined;

  constructor({ settings, clock, commandTimeoutMs = COMMAND_TIMEOUT_MS }: RedisStateOptions) {
    this.settings = settings;
    this.#clock = clock;
    this.#commandTimeoutMs = commandTimeoutMs;
    this.#clientOptions = clientOptions(settings);
    this.#client = this.#newClient();
  }

  /** Error code of the last failed connection, without hosts; undefined while connected. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /** Resolves when the store accepts commands, or after 2 s; connecting then continues in the background. */
  async connect(): Promise<void> {
    const connected = this.#client.connect().catch(() => {});
    let cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.#clock.after(CONNECT_TIMEOUT_MS, resolve);
    });
    await Promise.race([connected, late]);
    cancel();
  }

  nameOf(name: string): string {
    return this.settings.keyPrefix + name;
  }

  /**
   * Runs a script with one argument on these entries. Rejects as `ask` does; the script may have run nevertheless, or
   * may run later.
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
   * Sends a command. Rejects if it fails or the store is unreachable: a late answer is awaited once more as long, unless
   * an earlier answer was late when the command was sent.
   */
  async ask<T>(command: (client: RedisClient) => Promise<T>): Promise<T> {
    const sentAtMs = this.#clock.nowMs();
    let isLate = false;
    let cancel = () => {};
    const away = new Promise<never>((_resolve, reject) => {
      const giveUp = () => reject(new StoreTimeout());
      cancel = this.#clock.after(this.#commandTimeoutMs, () => {
        isLate = true;
        if (this.#lateSinceMs !== undefined && this.#lateSinceMs <= sentAtMs) return giveUp();
        this.#lateSinceMs ??= this.#clock.nowMs();
        cancel = this.#clock.after(this.#commandTimeoutMs, giveUp);
      });
    });
    try {
      const answer = await Promise.race([command(this.#client), away]);
      if (!isLate) this.#lateSinceMs = undefined;
      return answer;
    } finally {
      cancel();
    }
  }

  /** Calls `listener`, the only one of a channel, with each message; messages may be lost. */
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
    this.#client.disconnect();
    this.#subscriber?.disconnect();
  }

  #newClient(): Redis {
    const client = new Redis(this.#clientOptions);
    client.on("error", (error: unknown) => {
      this.#fault = faultOf(error);
    });
    client.on("ready", () => {
      this.#fault = undefined;
    });
    return client;
  }
}

function clientOptions({ url, caFile, passwordFile }: RedisSettings) {
  const { protocol, hostname, port, pathname, username, password } = new URL(url);
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || 6379),
    db: Number(pathname.slice(1)),
    ...(username && { username: decodeURIComponent(username) }),
    ...(passwordFile
      ? { password: readPassword(passwordFile) }
      : password && { password: decodeURIComponent(password) }),
    ...(protocol === "rediss:" && { tls: tlsOptions(caFile) }),
    connectTimeout: CONNECT_TIMEOUT_MS,
    // The caller handles commands that are not sent at once, or have no answer when the connection breaks.
    ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, lazyConnect: true },
    retryStrategy: (times: number) => Math.min(100 * times, MAX_RETRY_MS),
    // A master that became a replica must not be asked any more.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  } satisfies RedisOptions;
}

/** Returns options that read the authorities for each connection, and keep the last good ones. */
function tlsOptions(caFile: string | undefined): NonNullable<RedisOptions["tls"]> {
  const minVersion = "TLSv1.2";
  if (caFile === undefined) return { minVersion };
  let ca: Buffer;
  try {
    ca = readFileSync(caFile);
  } catch (cause) {
    throw new ConfigError(`state.redis.caFile: ${caFile} cannot be read (${errnoOf(cause)})`, { cause });
  }
  return {
    minVersion,
    get ca() {
      try {
        ca = readFileSync(caFile);
      } catch {
        // It is being replaced.
      }
      return ca;
    },
  };
}

function readPassword(file: string): string {
  try {
    const text = readPrivateFileSync(file)?.toString("utf8").trim();
    if (text) return text;
  } catch (cause) {
    if (!(cause instanceof FileError)) throw cause;
    throw new ConfigError(`state.redis.passwordFile: ${cause.message}`, { cause });
  }
  throw new ConfigError(`state.redis.passwordFile: ${file} is missing or empty`);
}

/** Returns an error as text without hosts: a code of the system, or the first word of the store's reply. */
export function faultOf(error: unknown): string {
  if (error instanceof StoreTimeout) return "timeout";
  const ownWord = error instanceof Error ? /^[A-Z]{3,}(?= )/.exec(error.message)?.[0] : undefined;
  return errnoOf(error) || (ownWord ?? "unreachable");
}
