import type { ChildProcess } from "node:child_process";
import { constants, getPriority, setPriority } from "node:os";

/**
 * How far a process gives way, in steps of `nice`: beside another one on the same core it gets a quarter of the time. Much
 * further, its threads that stand back behind all others (`threads/stand-back.ts`) would no longer be far behind it.
 */
const NICENESS = 5;

/**
 * Makes a process that was just started give way to the others of its machine where processors are short. That is for
 * engine nodes that compute on the processors of a gateway: an answer that is computed a moment later is later for one
 * caller, a gateway that waits for a processor is late for everybody. What the process starts, threads among it, gives
 * way as well. Where the system does not let it, the process stays as it is.
 */
export function giveWay({ pid }: Pick<ChildProcess, "pid">): void {
  if (pid === undefined) return;
  try {
    setPriority(pid, Math.min(constants.priority.PRIORITY_LOW, getPriority(pid) + NICENESS));
  } catch {
    // It has ended already, or the system has no priorities for us.
  }
}
