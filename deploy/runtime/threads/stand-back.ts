import { readlinkSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";

/** How far a thread stands back behind those of its process that serve everybody, in steps of `nice`. */
const NICENESS = 5;

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
