import { readlinkSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";

/**
 * How far a thread stands back behind those of its process that serve everybody, in steps of `nice`. Beside one of them
 * on the same core it gets a thirtieth of the time: enough for what has seconds to be done in, and several such threads
 * still leave most of the core to the one that serves.
 */
const NICENESS = 15;

/**
 * Makes the calling thread stand back behind the others of its process where processors are short. Linux has a priority
 * for each thread, and names the one that asks; elsewhere the thread stays as it is, and what it does is right, too.
 */
export function standBack(): void {
  try {
    const thread = Number(readlinkSync("/proc/thread-self").split("/").at(-1));
    setPriority(thread, Math.min(constants.priority.PRIORITY_LOW, getPriority() + NICENESS));
  } catch {
    // No Linux, or no right to.
  }
}
