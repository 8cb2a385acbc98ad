import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { type MonotonicClock, systemClock } from "../../../../deploy/runtime/time/clock.ts";

/** The most overdue steps that are run at once after the process was suspended; older ones are skipped. */
const MAX_CATCH_UP = 32;

type StepLoopOptions = {
  readonly clock: MonotonicClock;
  /** The duration of a step, in milliseconds. */
  readonly stepMs: number;
  /** Runs one step, due at `atMs`. Returns whether there is more work. */
  readonly step: (atMs: number) => boolean;
  readonly flush: () => void;
};

/** Drives the simulated engine: runs and counts steps while there is work. */
export class StepLoop {
  readonly #options: StepLoopOptions;
  #cancel: (() => void) | undefined;
  #nextAtMs = 0;
  #count = 0;

  constructor(options: StepLoopOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  start(): void {
    if (this.#cancel) return;
    this.#nextAtMs = this.#options.clock.nowMs() + this.#options.stepMs;
    this.#arm();
  }

  /** Pauses until there is work again. */
  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    const { clock } = this.#options;
    this.#cancel = clock.after(Math.max(0, this.#nextAtMs - clock.nowMs()), () => this.#tick());
  }

  #tick(): void {
    const { clock, step, stepMs, flush } = this.#options;
    const now = clock.nowMs();
    this.#cancel = undefined;
    let more = true;
    for (let made = 0; more && this.#nextAtMs <= now && made < MAX_CATCH_UP; made += 1) {
      this.#count += 1;
      more = step(this.#nextAtMs);
      this.#nextAtMs += stepMs;
    }
    if (this.#nextAtMs < now) this.#nextAtMs = now;
    if (more) this.#arm();
    flush();
  }
}

/**
 * Echoes the id of every line `<id> <ms>` after that many milliseconds. It ends when its input closes; the node handles
 * Ctrl-C.
 */
const TIMER = `
process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const [id, ms] = line.split(" ");
  setTimeout(() => process.stdout.write(id + "\\n"), Number(ms));
});`;

/**
 * A clock whose timers run in a separate process, as an accelerator keeps its own time: while that process is stopped
 * no timer fires, but the node keeps running.
 */
export class StepProcess implements MonotonicClock {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #due = new Map<string, () => void>();
  #timers = 0;

  constructor() {
    this.#child = spawn(process.execPath, ["--eval", TIMER], { stdio: ["pipe", "pipe", "inherit"] });
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
