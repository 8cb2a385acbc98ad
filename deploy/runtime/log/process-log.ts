import { type Bindings, type Logger, pino } from "pino";

/** Text that may wait for a reader of the log. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

export type ProcessLogOptions = {
  readonly level: "debug" | "info" | "warn" | "error";
  /** Stand in every line; null: nothing does. */
  readonly base: Bindings | null;
  /** A line found no room: whoever reads the log is too slow. */
  readonly onDrop?: () => void;
};

/**
 * JSON lines on standard error. Writing never waits: a collector that has stalled, or gone, must not stop the service, so
 * lines that find no room are dropped. What is there when the process ends is written first.
 */
export function processLog({ level, base, onDrop }: ProcessLogOptions): Logger {
  const destination = pino.destination({ dest: 2, sync: false, maxLength: MAX_WAITING_BYTES });
  if (onDrop) destination.on("drop", onDrop);
  return pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}
