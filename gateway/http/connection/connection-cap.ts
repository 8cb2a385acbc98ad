import { readFileSync } from "node:fs";
import type { Server } from "node:net";
import type { Logger } from "pino";
import { atMostEvery } from "../../../deploy/runtime/log/process-log.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** Milliseconds between two log lines about refused connections. */
const LOG_INTERVAL_MS = 10_000;

export type CapSinks = {
  readonly log: Logger;
  readonly clock: Pick<Clock, "nowMs">;
  readonly onRefused: () => void;
};

/**
 * Limits a server to `most` connections. Node closes each further one when it is accepted, without a byte: a process
 * without free descriptors could not accept any, nor answer on its admin port.
 */
export function capConnections(server: Server, most: number, { log, clock, onRefused }: CapSinks): void {
  server.maxConnections = most;
  const say = atMostEvery(clock, LOG_INTERVAL_MS, (_: undefined, refused) =>
    log.warn({ maxConnections: most, refused }, "connections are refused: the connection limit is reached"),
  );
  server.on("drop", () => {
    onRefused();
    say(undefined);
  });
}

/** Share of the process's descriptors for callers: engines, files, log and admin port need some, too. */
const CALLERS_SHARE = 0.75;

/** The limit of open descriptors (`ulimit -n`) by Linux's `/proc/self/limits`; undefined elsewhere. */
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
