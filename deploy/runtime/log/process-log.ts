import { type Bindings, type Logger, pino } from "pino";
import { LineWriter } from "./line-writer.ts";

/** The most characters that may wait for a reader of the log. */
const MAX_WAITING = 8 * 1024 * 1024;
/** The time, in milliseconds, that the last lines may take when the process ends and the reader of the log is slow. */
const LAST_LINES_MS = 1_000;

/** The settings of a process's log. */
export type ProcessLogOptions = {
  /** The level below which lines are not written. */
  readonly level: "debug" | "info" | "warn" | "error";
  /** The fields that stand in every line; with null no line has fields of its own accord. */
  readonly base: Bindings | null;
  /**
   * Called for each line that is lost, because the reader of the log is too slow or has gone. Default: nobody counts
   * them.
   */
  readonly onDrop?: () => void;
};

/**
 * Makes the log of this process: JSON lines on standard error. Writing never waits: a collector that has stalled, or
 * gone, must not stop the service, so lines that find no room are dropped. The lines that wait when the process ends
 * are written first, unless nobody reads them any more.
 */
export function processLog({ level, base, onDrop = () => {} }: ProcessLogOptions): Logger {
  const lines = new LineWriter({ fd: 2, maxWaiting: MAX_WAITING, onDrop });
  process.on("exit", () => lines.writeRest(LAST_LINES_MS));
  return pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, lines);
}
