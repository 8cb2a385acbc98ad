import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "../free-port.ts";

const UP_WITHIN_MS = 900_000;
const RESTART_AFTER_MS = 500;
const SHOWN_OUTPUT = 4_000;

export type EngineCommand = {
  readonly program: string;
  readonly args: (port: number) => readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
};

/** An engine in its own process group, which is restarted whenever it ends, as an orchestrator does. */
export class RealEngine {
  readonly #command: EngineCommand;
  readonly #port: number;
  #child: ChildProcess | undefined;
  #stopping = false;
  /** Whether it has been healthy once: an engine that never was is not restarted. */
  #cameUp = false;

  private constructor(command: EngineCommand, port: number) {
    this.#command = command;
    this.#port = port;
  }

  /** Starts an engine on a free port and waits until it is healthy. Throws with the end of its output if it fails. */
  static async start(command: EngineCommand): Promise<RealEngine> {
    const engine = new RealEngine(command, await freePort());
    // The engine must end with the tests: as the leader of a group it would outlive them.
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

  get baseUrl(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Returns all that the engine has written. */
  output(): string {
    return readFileSync(this.#command.logFile, "utf8");
  }

  /** Kills all processes of the engine. It is restarted on the same port. */
  kill(): void {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It has already exited.
    }
  }

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
      // Leads a process group: engines have child processes.
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
    const how = hasEnded(this.#child) ? "it ended" : `it was not healthy within ${UP_WITHIN_MS / 1_000} s`;
    const { logFile } = this.#command;
    throw new Error(`${basename(logFile, ".log")} did not come up: ${how}\n${this.output().slice(-SHOWN_OUTPUT)}`);
  }
}

function hasEnded(child: ChildProcess | undefined): boolean {
  return child !== undefined && (child.exitCode !== null || child.signalCode !== null);
}
