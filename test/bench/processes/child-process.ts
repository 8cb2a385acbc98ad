import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Child, type Ready } from "../../../deploy/local/child.ts";
import { IMAGE_ENV } from "../../support/processes/image-env.ts";

/** A running program, of the benches or of the service. */
export type RunningChild = {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly ready: Ready;
  /** Asks it to end, and waits until it has. */
  stop(): Promise<void>;
};

/** How a built program is run by Node, beside what the service's processes are started with. */
export type NodeOptions = {
  /** Further flags for Node. Default: none. */
  readonly nodeFlags?: readonly string[];
};

/**
 * Starts a built program and resolves when it says `ready {…}`. What the program writes on its standard error goes to a
 * file in `folder`, as in operation it goes to a collector; it is part of the message when the start fails.
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
  // Its end of the channel closes with us: nothing is left behind by a bench that was killed.
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
