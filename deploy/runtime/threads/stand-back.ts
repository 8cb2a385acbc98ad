import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";

/** How far a thread stands back where processors are short, as `nice` has it: behind those that serve everybody. */
const NICENESS = 5;

/**
 * Makes the calling thread stand back behind the others of its process where processors are short. Linux has a priority
 * for each thread, and names the one that asks; elsewhere the thread stays as it is, and what it does is right, too.
 */
export function standBack(): void {
  try {
    setPriority(Number(readlinkSync("/proc/thread-self").split("/").at(-1)), NICENESS);
  } catch {
    // No Linux, or no right to.
  }
}
