import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "../free-port.ts";

/** The longest time that an engine may take to come up on a busy machine, in milliseconds. */
const UP_WITHIN_MS = 400_000;
const RESTART_AFTER_MS = 500;
/** The part of an engine's output that is shown where it did not come up, in characters. */
const SHOWN_OUTPUT = 4_000;

/** How an engine is run. */
export type EngineCommand = {
  /** The program. */
  readonly program: string;
  /** Returns the arguments of the program for a server on this port of 127.0.0.1. */
  readonly args: (port: number) => readonly string[];
  /** The variables that the program is given beside those of this process. */
  readonly env: Readonly<Record<string, string>>;
  /** The file that the program's output goes to. */
  readonly logFile: string;
};

/** An engine as a process group of its own, which is started again whenever it ends, as an orchestrator would do. */
export class RealEngine {
  readonly #command: EngineCommand;
  readonly #port: number;
  #child: ChildProcess | undefined;
  #stopping = false;
  /** Whether it has come up once: one that never did is not started again. */
  #cameUp = false;

  private constructor(command: EngineCommand, port: number) {
    this.#command = command;
    this.#port = port;
  }

  /** Starts an engine on a free port and waits until it is healthy. Throws with its last words where it does not. */
  static async start(command: EngineCommand): Promise<RealEngine> {
    const engine = new RealEngine(command, await freePort());
    // Whatever ends the tests ends the engine: as the leader of a group it would outlive them.
    process.once("exit", () => engine.kill());
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));
    engine.#run();
    try {
      await engine.untilUp();
    } catch (error) {
      await engine.stop();
      throw error;
    }
    return engine;
  }

  /** The root URL of the engine's server. */
  get baseUrl(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Kills the engine with all its processes. It is started again on the same port. */
  kill(): void {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }

  /** Ends the engine for good. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (!child || hasEnded(child)) return;
    const ended = new Promise((resolve) => child.once("close", resolve));
    this.kill();
    await ended;
  }

  #run(): void {
    const { program, args, env, logFile } = this.#command;
    const log = openSync(logFile, "a");
    const child = spawn(program, args(this.#port), {
      // Leads a process group: engines have processes of their own.
      detached: true,
      stdio: ["ignore", log, log],
      env: { ...process.env, ...env },
    });
    closeSync(log);
    this.#child = child;
    child.once("error", (error) => process.stderr.write(`${program}: ${error.message}\n`));
    child.once("close", () => {
      if (this.#cameUp) setTimeout(() => !this.#stopping && this.#run(), RESTART_AFTER_MS);
    });
  }

  /** Resolves when the engine is healthy. Throws with its last words where it does not become so. */
  async untilUp(): Promise<void> {
    for (const lastMs = Date.now() + UP_WITHIN_MS; Date.now() < lastMs; await wait(RESTART_AFTER_MS)) {
      const isUp = await fetch(`${this.baseUrl}/health`).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isUp) {
        this.#cameUp = true;
        return;
      }
      if (!this.#cameUp && hasEnded(this.#child)) break;
    }
    const output = readFileSync(this.#command.logFile, "utf8").slice(-SHOWN_OUTPUT);
    throw new Error(`${this.#command.program} did not come up:\n${output}`);
  }
}

function hasEnded(child: ChildProcess | undefined): boolean {
  return child !== undefined && (child.exitCode !== null || child.signalCode !== null);
}
