import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** The fields of the line `ready {…}` that a process prints on stdout once it accepts requests. */
export type Ready = Readonly<Record<string, unknown>>;

/**
 * Starts a program of ours. With `log`, a file that is open, it writes there in place of this terminal, whose Ctrl-C does
 * not reach it. The `ipc` channel closes when this process dies, and the child ends.
 */
export function startProcess(program: string, args: readonly string[], log?: number): ChildProcess {
  const stdio = ["ignore" as const, "pipe" as const, log ?? ("inherit" as const), "ipc" as const];
  return spawn(process.execPath, [program, ...args], { stdio, detached: log !== undefined });
}

/** The signal of the system's out-of-memory killer: the process cannot report it. */
const FOR_MEMORY = "SIGKILL";

export function endOf(how: string): string {
  return how === FOR_MEMORY ? `${how}: was there too little memory for it?` : how;
}

/** A process ended before it was ready. It has printed the reason on stderr, unless it was killed. */
export class ChildFailed extends Error {
  override readonly name = "ChildFailed";
  readonly exitCode: number;
  readonly how: string;

  constructor(name: string, exitCode: number, how: string) {
    super(`${name} did not start (${endOf(how)})`);
    this.how = how;
    this.exitCode = exitCode;
  }
}

export class Child {
  /** Resolves to the process's `ready` fields; rejects with `ChildFailed` if it ended before. */
  readonly ready: Promise<Ready>;
  /** Resolves to a description of the process's end: `exit code 1`, `SIGKILL`. It never rejects. */
  readonly ended: Promise<string>;
  readonly #process: ChildProcess;

  /** `onLoading` takes each line in which the process says how much it has loaded. */
  constructor(name: string, process: ChildProcess, onLoading: (line: string) => void = () => {}) {
    this.#process = process;
    const end = new Promise<{ exitCode: number; how: string }>((resolve) => {
      process.once("close", (code, signal) => resolve({ exitCode: code ?? 1, how: signal ?? `exit code ${code}` }));
      process.on("error", () => resolve({ exitCode: 1, how: "it could not be run" }));
    });
    this.ended = end.then(({ how }) => how);
    this.ready = new Promise((resolve, reject) => {
      if (process.stdout)
        createInterface({ input: process.stdout }).on("line", (line) => {
          if (line.startsWith("ready ")) resolve(JSON.parse(line.slice("ready ".length)));
          else if (line.startsWith("loading ")) onLoading(line);
        });
      void end.then(({ exitCode, how }) => reject(new ChildFailed(name, exitCode, how)));
    });
    this.ready.catch(() => {});
  }

  /** Sends the process a message, and passes on those that it sends. */
  talk(message: object, onMessage: (message: object) => void): void {
    this.#process.on("message", onMessage);
    this.#process.send(message);
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }
}
