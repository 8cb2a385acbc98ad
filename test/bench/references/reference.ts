import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, closeSync, constants, openSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** The start limit of a reference, in milliseconds; some load thousands of modules. */
const START_MS = 90_000;

/** A running alternative to the gateway, in front of the engine's plain HTTP. */
export type Reference = {
  readonly name: string;
  /** The measured process; changes with a restart. */
  readonly pid: number;
  readonly port: number;
  /** Headers beside those of the format. */
  readonly headers: readonly string[];
  /** Restarts the process on the same port; resolves when it can serve. */
  restart(): Promise<void>;
  stop(): Promise<void>;
};

export type ReferenceProgram = {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly port: number;
  /** The working directory, which also gets the log. */
  readonly folder: string;
  /** Headers beside those of the format. Default: none. */
  readonly headers?: readonly string[];
  /** The path that returns 200 when the reference can serve. Default: it serves once it accepts connections. */
  readonly readyPath?: string;
};

/** Starts a reference; resolves when it can serve. Rejects with the end of its log if it does not start. */
export async function startReference(options: ReferenceProgram): Promise<Reference> {
  const { name, port, headers = [] } = options;
  let running = await run(options);
  return {
    ...{ name, port, headers },
    get pid() {
      return running.child.pid ?? 0;
    },
    async restart() {
      await running.end();
      running = await run(options);
    },
    stop: () => running.end(),
  };
}

type Run = { readonly child: ChildProcess; end(): Promise<void> };

async function run(options: ReferenceProgram): Promise<Run> {
  const { name, folder } = options;
  const log = join(folder, `${name}.log`);
  const child = spawned(options, log);
  child.once("error", () => {});
  // A reference does not detect the end of the bench, so it is killed at exit.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  const ended = once(child, "close");
  const end = async () => {
    process.off("exit", kill);
    kill();
    await ended;
  };
  try {
    for (const lastMs = Date.now() + START_MS; !(await serves(options)); await sleep(50))
      if (child.exitCode !== null || Date.now() > lastMs) throw new Error(readFileSync(log, "utf8").slice(-2_000));
  } catch (cause) {
    kill();
    throw new Error(`${name} did not start`, { cause });
  }
  return { child, end };
}

async function serves({ port, readyPath }: ReferenceProgram): Promise<boolean> {
  if (readyPath === undefined) return accepts(port);
  const answer = await fetch(`http://127.0.0.1:${port}${readyPath}`).catch(() => undefined);
  await answer?.text();
  return answer?.ok ?? false;
}

function spawned({ program, args, folder }: ReferenceProgram, log: string): ChildProcess {
  const file = openSync(log, "a");
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", file, file] });
  closeSync(file);
  return child;
}

/** Pins a process with all its threads to one CPU. Does nothing without `taskset`. */
export function pin(pid: number, processor: number | undefined): void {
  const taskset = processor === undefined ? undefined : programOf("taskset");
  if (taskset !== undefined) execFileSync(taskset, ["-acp", String(processor), String(pid)], { stdio: "ignore" });
}

/** The folders searched for references beside the PATH: a Python environment, or npm packages. */
function folders(): readonly string[] {
  const named = process.env.SVC_BENCH_REFERENCES?.split(delimiter) ?? [];
  return [...named, join(process.cwd(), ".tools/references"), join(process.cwd(), ".tools")];
}

/** Returns the path of a program on the PATH or in a folder of references; undefined if there is none. */
export function programOf(name: string): string | undefined {
  const path = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name));
  return [...folders().map((folder) => join(folder, "bin", name)), ...path].find((file) =>
    isThere(file, constants.X_OK),
  );
}

/** Returns the path of a file in an npm package in a folder of references; undefined if there is none. */
export function moduleOf(file: string): string | undefined {
  return folders()
    .map((folder) => join(folder, "node_modules", file))
    .find((found) => isThere(found, constants.R_OK));
}

function isThere(file: string, mode: number): boolean {
  try {
    accessSync(file, mode);
    return true;
  } catch {
    return false;
  }
}

export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
