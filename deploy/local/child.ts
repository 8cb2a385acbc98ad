import { type ChildProcess, spawn } from "node:child_process";
import cluster from "node:cluster";
import { createInterface } from "node:readline";

/** What a process says on its standard output when it takes requests: `ready {…}`. */
export type Ready = Readonly<Record<string, unknown>>;

/** Its closing tells the child that its supervisor has died; what else goes over it concerns gateway workers alone. */
const STDIO = ["ignore", "pipe", "inherit", "ipc"] as const;

/** A process of its own. */
export function startProcess(program: string, args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [program, ...args], { stdio: [...STDIO] });
}

/** A process that shares its listening ports with its like, by Node's cluster module. */
export function startWorker(program: string, args: readonly string[]): ChildProcess {
  cluster.setupPrimary({ exec: program, args: [...args], stdio: [...STDIO] });
  return cluster.fork().process;
}

/** A process ended before it was ready; it has said why on its standard error. */
export class ChildFailed extends Error {
  override readonly name = "ChildFailed";
  readonly exitCode: number;
  /** `exit code 1`, `SIGKILL`. */
  readonly how: string;

  constructor(name: string, exitCode: number, how: string) {
    super(`the ${name} did not start (${how})`);
    this.how = how;
    this.exitCode = exitCode;
  }
}

/** One supervised process, from its start to its end. */
export class Child {
  /** What it said when it was ready; rejects with `ChildFailed` when it ended before. */
  readonly ready: Promise<Ready>;
  /** Settles when it has ended, with how: `exit code 1`, `SIGKILL`. */
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

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }
}
