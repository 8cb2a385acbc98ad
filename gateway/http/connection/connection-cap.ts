import type { Server } from "node:net";
import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** The time in which the log says at most once that connections are refused, in milliseconds. */
const LOG_INTERVAL_MS = 10_000;

/** What is told of refused connections. */
export type CapSinks = {
  /** The log that says, now and then, that connections are refused. */
  readonly log: Logger;
  /** The clock by which the lines of the log are spaced. */
  readonly clock: Pick<Clock, "nowMs">;
  /** Called for every refused connection. */
  readonly onRefused: () => void;
};

/**
 * Lets a server have at most `most` connections. One more is closed by Node as soon as it is accepted, without a byte:
 * a process without descriptors could accept none at all, and not answer on its admin port either.
 */
export function capConnections(server: Server, most: number, { log, clock, onRefused }: CapSinks): void {
  server.maxConnections = most;
  let refused = 0;
  let loggedMs = Number.NEGATIVE_INFINITY;
  server.on("drop", () => {
    onRefused();
    refused += 1;
    if (clock.nowMs() - loggedMs < LOG_INTERVAL_MS) return;
    log.warn({ maxConnections: most, refused }, "connections are refused: there are as many as may be open");
    loggedMs = clock.nowMs();
    refused = 0;
  });
}
