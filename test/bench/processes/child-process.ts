import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Child, type Ready } from "../../../deploy/local/child.ts";
import { IMAGE_ENV } from "../../support/processes/image-env.ts";

export type RunningChild = {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly ready: Ready;
  /** Signals the process to end, and waits for its end. */
  stop(): Promise<void>;
};

export type NodeOptions = {
  /** Further flags for Node. Default: none. */
  readonly nodeFlags?: readonly string[];
};

/**
 * Starts a built program and resolves when it prints `ready {…}`. Its standard error goes to a file in `folder`, as to
 * a collector in operation; the end of it is in the message if the start fails.
 */
export async function startChild(
  name: string,
  program: string,
  args: readonly string[],
  folder: string,
  { nodeFlags = [] }: NodeOptions = {},
): Promise<RunningChild> {
  const log = join(folder, `${name}.log`);
  const errors = openSync(log, "a");
  // The IPC channel closes with the bench, so that a killed bench leaves no process behind.
  const spawned = spawn(process.execPath, [...nodeFlags, program, ...args], {
    stdio: ["ignore", "pipe", errors, "ipc"],
    env: { ...IMAGE_ENV, ...process.env },
  });
  closeSync(errors);
  const child = new Child(name, spawned);
  try {
    const ready = await child.ready;
    return {
      process: spawned,
      pid: spawned.pid ?? 0,
      ready,
      async stop() {
        child.signal("SIGTERM");
        await child.ended;
      },
    };
  } catch (error) {
    throw new Error(`the ${name} did not start: ${readFileSync(log, "utf8").slice(-2_000)}`, { cause: error });
  }
}
