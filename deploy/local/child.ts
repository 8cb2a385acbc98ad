import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** The fields that a process says on its standard output, as `ready {…}`, once it takes requests. */
export type Ready = Readonly<Record<string, unknown>>;

/** The streams of every child. The `ipc` channel carries no messages: it closes when the supervisor dies, and the child ends. */
const STDIO = ["ignore", "pipe", "inherit", "ipc"] as const;

/** Starts `program`, the path of a script, in a Node process of its own. */
export function startProcess(program: string, args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [program, ...args], { stdio: [...STDIO] });
}

/** What the system does to a process for which there is no memory: it cannot say so itself. */
const FOR_MEMORY = "SIGKILL";

/** Says for people how a process ended, with a guess at why where it was killed. */
export function endOf(how: string): string {
  return how === FOR_MEMORY ? `${how}: was there too little memory for it?` : how;
}

/**
 * The error for a process that ended before it was ready. The process has said why on its standard error, but where it
 * was killed.
 */
export class ChildFailed extends Error {
  override readonly name = "ChildFailed";
  /** The exit code of the process; 1 when a signal ended it or it could not be run. */
  readonly exitCode: number;
  /** The way in which the process ended, for people: `exit code 1`, `SIGKILL`. */
  readonly how: string;

  constructor(name: string, exitCode: number, how: string) {
    super(`the ${name} did not start (${endOf(how)})`);
    this.how = how;
    this.exitCode = exitCode;
  }
}

/** One supervised process, from its start to its end. */
export class Child {
  /** Resolves to what the process said when it was ready; rejects with `ChildFailed` when it ended before. */
  readonly ready: Promise<Ready>;
  /** Resolves when the process has ended, to how it did: `exit code 1`, `SIGKILL`. It never rejects. */
  readonly ended: Promise<string>;
  readonly #process: ChildProcess;

  constructor(name: string, process: ChildProcess) {
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
        });
      void end.then(({ exitCode, how }) => reject(new ChildFailed(name, exitCode, how)));
    });
    this.ready.catch(() => {});
  }

  /** Sends a signal to the process; does nothing when the process has ended. */
  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }
}
