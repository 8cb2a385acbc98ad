import type { Server } from "node:net";
import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** Milliseconds between two log lines about refused connections. */
const LOG_INTERVAL_MS = 10_000;

/** The log and the counter of refused connections. */
export type CapSinks = {
  readonly log: Logger;
  readonly clock: Pick<Clock, "nowMs">;
  /** Called for every refused connection. */
  readonly onRefused: () => void;
};

/**
 * Limits a server to `most` connections. Node closes each further one when it is accepted, without a byte: a process
 * without free descriptors could not accept any, nor answer on its admin port.
 */
export function capConnections(server: Server, most: number, { log, clock, onRefused }: CapSinks): void {
  server.maxConnections = most;
  let refused = 0;
  let loggedMs = Number.NEGATIVE_INFINITY;
  server.on("drop", () => {
    onRefused();
    refused += 1;
    if (clock.nowMs() - loggedMs < LOG_INTERVAL_MS) return;
    log.warn({ maxConnections: most, refused }, "connections are refused: the connection limit is reached");
    loggedMs = clock.nowMs();
    refused = 0;
  });
}
