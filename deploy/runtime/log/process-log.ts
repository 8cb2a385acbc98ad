import { createRequire } from "node:module";
import { type Bindings, type Logger, pino } from "pino";
import type { prettyFactory } from "pino-pretty";
import sonicBoom from "sonic-boom";
import { errnoOf } from "../files/private-file.ts";
import { crashReport } from "../process/end-on-crash.ts";
import type { Clock } from "../time/clock.ts";

/** The most bytes that may wait for a reader of the log. */
const MAX_WAITING = 8 * 1024 * 1024;
/** The time, in milliseconds, that the last lines may take when the process ends and the reader of the log is slow. */
const LAST_LINES_MS = 1_000;
/** A pipe takes so many bytes at once or not at all (PIPE_BUF), so lines of several processes never mix. */
const WRITE_BYTES = 4_096;
/** The longest time, in milliseconds, until waiting lines are written, or tried again where a write has failed. */
const FLUSH_MS = 100;

export type ProcessLogOptions = {
  readonly level: "debug" | "info" | "warn" | "error";
  /** `auto` is text on a terminal, and JSON elsewhere. */
  readonly format: "auto" | "json" | "text";
  readonly base: Bindings | null;
  /** Called for each line that is lost, because the reader of the log is too slow or has gone. Default: not counted. */
  readonly onDrop?: () => void;
  /** Called with each line of a warning or an error. Default: nothing is. */
  readonly onWarning?: (line: string) => void;
};

/** Where the level stands in a line of pino, whose levels from `warn` on begin with 4, 5 and 6. */
const LEVEL_AT = '{"level":'.length;

/**
 * Makes the log of this process: lines on standard error. Writing never waits: a collector that has stalled, or
 * gone, must not stop the service, so lines beyond the buffer are dropped. The lines that wait when the process ends
 * are written first, unless the reader has gone.
 */
export function processLog({ level, format, base, onDrop = () => {}, onWarning }: ProcessLogOptions): Logger {
  const shown = format === "text" || (format === "auto" && process.stderr.isTTY) ? textOf() : (line: string) => line;
  const lines = lineWriter({ fd: 2, maxWaiting: MAX_WAITING, onDrop });
  process.on("exit", () => lines.writeRest(LAST_LINES_MS));
  const write = (line: string) => {
    if (onWarning && line.charAt(LEVEL_AT) >= "4") onWarning(line);
    lines.write(shown(line));
  };
  return pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, { write });
}

/** Returns the writer of JSON lines as text. It is loaded where it is used only. */
function textOf(): (line: string) => string {
  const library: { readonly prettyFactory: typeof prettyFactory } = createRequire(import.meta.url)("pino-pretty");
  const options = { colorize: process.stderr.isTTY, ignore: "pid,hostname", translateTime: "SYS:HH:MM:ss" };
  return library.prettyFactory({ ...options, singleLine: true });
}

export type LineWriter = {
  readonly write: (line: string) => void;
  /**
   * Writes the waiting lines before it returns, for a process that ends. It blocks for some `limitMs` at most while the
   * file takes nothing (EAGAIN), and gives up where a write fails.
   */
  readonly writeRest: (limitMs: number) => void;
};

/**
 * Makes a writer to an open file, pipe or socket, which it does not close. Lines beyond `maxWaiting` bytes are dropped,
 * and so are those that come while writes fail, as to a closed pipe or a full disk; `onDrop` is called for each.
 */
export function lineWriter(options: Readonly<{ fd: number; maxWaiting: number; onDrop: () => void }>): LineWriter {
  const { fd, maxWaiting: maxLength, onDrop } = options;
  let isFailing = false;
  let retryUntilMs = 0;
  // The library's own retry has a timer that keeps the process alive; a failed write is tried again at the next flush.
  const retryEAGAIN = () => performance.now() < retryUntilMs;
  const sizes = { maxLength, maxWrite: WRITE_BYTES, minLength: WRITE_BYTES - 1 };
  const file = new sonicBoom.SonicBoom({ fd, sync: false, ...sizes, periodicFlush: FLUSH_MS, retryEAGAIN });
  file.on("drop", onDrop);
  file.on("write", () => {
    isFailing = false;
  });
  file.on("error", (error) => {
    isFailing = errnoOf(error) !== "EAGAIN";
  });
  return {
    write(line) {
      if (isFailing) onDrop();
      else file.write(line);
    },
    writeRest(limitMs) {
      retryUntilMs = performance.now() + limitMs;
      try {
        file.flushSync();
      } catch {
        // The reader has gone or takes nothing: the process ends without these lines.
      }
    },
  };
}

/**
 * Returns what calls `say` at once, and then at most once in `everyMs` milliseconds, however often it is called. `say`
 * gets the value of that call, and the number of calls since it was last called, this one included.
 */
export function atMostEvery<T>(
  clock: Pick<Clock, "nowMs">,
  everyMs: number,
  say: (value: T, times: number) => void,
): (value: T) => void {
  let saidAtMs = Number.NEGATIVE_INFINITY;
  let times = 0;
  return (value) => {
    times += 1;
    const nowMs = clock.nowMs();
    if (nowMs - saidAtMs < everyMs) return;
    saidAtMs = nowMs;
    say(value, times);
    times = 0;
  };
}

/** Warnings without use: grpc-js names an IP address as a host, which Node leaves out of the handshake. */
const KNOWN: ReadonlySet<unknown> = new Set(["DEP0123"]);

/**
 * Writes Node's warnings as lines of `log`, but for those that are known and harmless. Node would write them to standard
 * error as text, where every line is to be JSON. The message is left out, as with errors.
 */
export function logWarnings(log: Logger): void {
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    if (KNOWN.has(Reflect.get(warning, "code"))) return;
    const { error: _class, ...rest } = crashReport(warning);
    log.warn({ warning: warning.name, ...rest }, "Node warns");
  });
}
