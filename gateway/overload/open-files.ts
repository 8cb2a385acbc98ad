import { readFileSync } from "node:fs";

/** Share of the process's descriptors for callers: engines, files, log and admin port need some, too. */
const CALLERS_SHARE = 0.75;

/**
 * Returns the limit of open descriptors of this process (`ulimit -n`); undefined if the system does not report it.
 * `text` is the content of Linux's `/proc/self/limits`.
 */
export function openFilesLimit(text = ownLimits()): number | undefined {
  const soft = /^Max open files +(\d+)/m.exec(text)?.[1];
  return soft === undefined ? undefined : Number(soft);
}

/** Returns the most connections of callers for `openFiles` descriptors; at least 1. */
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
