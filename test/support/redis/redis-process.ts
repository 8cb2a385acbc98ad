import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { freePort } from "../free-port.ts";
import { SHIPPED_USER, shippedArgs, shippedUsers } from "./shipped-store.ts";

/** Path of the binary: from the environment, or the system's. */
const BINARY = process.env.SVC_TEST_REDIS ?? "redis-server";
const VALKEY = process.env.SVC_TEST_VALKEY ?? "valkey-server";

const runs = (binary: string) => spawnSync(binary, ["--version"]).status === 0;

export const HAS_REDIS = runs(BINARY);
/** Supported servers that are not installed on this machine. */
export const MISSING_SERVERS = [BINARY, VALKEY].filter((binary) => !runs(binary));
export const SERVERS = [BINARY, VALKEY].filter((binary) => !MISSING_SERVERS.includes(binary));
export const NO_REDIS = "no redis-server: install it, or name a binary in SVC_TEST_REDIS";

/** A user of a shipped store with all rights, if a test asks for it. */
export const OPERATOR = "operator";

type Login = { readonly username: string; readonly password: string };

export class RedisProcess {
  /** Stays the same after a restart. */
  readonly port: number;
  readonly #args: readonly string[];
  readonly #folder: string;
  readonly #binary: string;
  /** User and password of `ask`; undefined for a server without login. */
  readonly #login: Login | undefined;
  #child: ChildProcess;

  private constructor(port: number, args: readonly string[], folder: string, binary = BINARY, login?: Login) {
    this.port = port;
    this.#args = args;
    this.#folder = folder;
    this.#binary = binary;
    this.#login = login;
    this.#child = this.#spawn();
  }

  /**
   * Starts a server, one of `SERVERS`, with the shipped users and arguments, and with `operator` a user OPERATOR with
   * the same password and all rights. Resolves when it listens.
   */
  static async shipped(
    binary: string,
    password: string,
    { operator = false, args = [] }: { readonly operator?: boolean; readonly args?: readonly string[] } = {},
  ): Promise<RedisProcess> {
    const folder = mkdtempSync(join(tmpdir(), "svc-redis-"));
    const aclFile = join(folder, "users.acl");
    const more = operator ? `user ${OPERATOR} on >${password} ~* &* +@all\n` : "";
    writeFileSync(aclFile, shippedUsers(password) + more);
    const login = { username: operator ? OPERATOR : SHIPPED_USER, password };
    const redis = new RedisProcess(await freePort(), [...shippedArgs(aclFile), ...args], folder, binary, login);
    await redis.#listens();
    return redis;
  }

  /**
   * Starts a Redis on a free port with these command line options; for TLS they contain `--tls-port` without a port.
   * Resolves when it listens.
   */
  static async start(...args: readonly string[]): Promise<RedisProcess> {
    const port = await freePort();
    const redis = new RedisProcess(port, args, mkdtempSync(join(tmpdir(), "svc-redis-")));
    await redis.#listens();
    return redis;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Sends a command; resolves to its reply. */
  async ask(...command: readonly [string, ...string[]]): Promise<unknown> {
    const client = new Redis({ host: "127.0.0.1", port: this.port, ...this.#login });
    client.on("error", () => {});
    try {
      const [name, ...args] = command;
      return await client.call(name, ...args);
    } finally {
      client.disconnect();
    }
  }

  /** Stops it, by SIGTERM by default, or as a power failure does. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill(signal);
    await ended;
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(signal);
  }

  async startAgain(): Promise<void> {
    this.#child = this.#spawn();
    await this.#listens();
  }

  async end(): Promise<void> {
    this.signal("SIGCONT");
    await this.stop("SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #spawn(): ChildProcess {
    const port = String(this.port);
    const bind = ["--bind", "127.0.0.1"];
    const always = this.#login ? [] : ["--save", "", "--appendfsync", "always"];
    const own = [...bind, "--dir", this.#folder, ...always];
    const tls = this.#args.indexOf("--tls-port");
    const plain = tls < 0 ? port : "0";
    const withPort = this.#args.flatMap((arg, at) => (at === tls ? [arg, port] : [arg]));
    return spawn(this.#binary, ["--port", plain, ...own, ...withPort], {
      stdio: "ignore",
    });
  }

  async #listens(): Promise<void> {
    for (;;) {
      const socket = createConnection(this.port, "127.0.0.1");
      const connected = await new Promise((resolve) => {
        socket.once("connect", () => resolve(true));
        socket.once("error", () => resolve(false));
      });
      socket.destroy();
      if (connected) return;
      if (this.#child.exitCode !== null) throw new Error(`redis-server ended with ${this.#child.exitCode}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
