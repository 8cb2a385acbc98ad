import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { type MonotonicClock, systemClock } from "../../../deploy/runtime/time/clock.ts";

/** The program of the process, beside this file, built or not. */
const PROGRAM = new URL(`./step-timer${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

/**
 * A clock whose timers run in a separate process, as an accelerator keeps its own time: while that process is stopped
 * no timer fires, but the node keeps running.
 */
export class StepProcess implements MonotonicClock {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #due = new Map<string, () => void>();
  #timers = 0;

  constructor() {
    this.#child = spawn(process.execPath, [fileURLToPath(PROGRAM)], { stdio: ["pipe", "pipe", "inherit"] });
    // A lost process is treated as a stopped one.
    this.#child.on("error", () => {});
    this.#child.stdin.on("error", () => {});
    createInterface({ input: this.#child.stdout }).on("line", (id) => {
      const run = this.#due.get(id);
      this.#due.delete(id);
      run?.();
    });
  }

  /** The id of the process; 0 if it could not be started. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** The monotonic time of this process, in milliseconds. */
  nowMs(): number {
    return systemClock.nowMs();
  }

  /**
   * Calls `run` when the other process reports that `ms` milliseconds have passed; the returned function cancels it.
   */
  after(ms: number, run: () => void): () => void {
    this.#timers += 1;
    const id = String(this.#timers);
    this.#due.set(id, run);
    this.#child.stdin.write(`${id} ${ms}\n`);
    return () => this.#due.delete(id);
  }

  close(): void {
    this.#due.clear();
    this.#child.kill("SIGKILL");
  }
}
