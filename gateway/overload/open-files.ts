import { readFileSync } from "node:fs";

/** The share of its descriptors that a process spends on callers: engines, files, log and admin port need some, too. */
const CALLERS_SHARE = 0.75;

/**
 * Returns how many descriptors this process may have open at once, as `ulimit -n` says; undefined where the system does
 * not tell. `text` is what Linux says of the limits of a process.
 */
export function openFilesLimit(text = ownLimits()): number | undefined {
  const soft = /^Max open files +(\d+)/m.exec(text)?.[1];
  return soft === undefined ? undefined : Number(soft);
}

/** Returns the most connections of callers that leave a process enough of `openFiles` descriptors; at least 1. */
export function connectionsFor(openFiles: number): number {
  return Math.max(1, Math.floor(CALLERS_SHARE * openFiles));
}

function ownLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "utf8");
  } catch {
    // Not Linux.
    return "";
  }
}
