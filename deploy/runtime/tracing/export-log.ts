import type { DiagLogger } from "@opentelemetry/api";
import type { Logger } from "pino";

/** The milliseconds between two lines at least: a collector that is down fails every export. */
const BETWEEN_LINES_MS = 60_000;

/**
 * Makes the logger that writes the SDK's complaints as lines of `log`, at most one a minute; the field `unsaid` counts
 * the complaints left out since the line before. `nowMs` returns monotonic milliseconds.
 *
 * The SDK gives a failed export as JSON. Of it only the code, or the SDK's own sentence, is written: the rest may be
 * the collector's words.
 */
export function exportLog(log: Logger, nowMs: () => number): DiagLogger {
  let nextMs = Number.NEGATIVE_INFINITY;
  let unsaid = 0;
  const say = (complaint: string) => {
    const now = nowMs();
    if (now < nextMs) {
      unsaid += 1;
    } else {
      log.warn(
        { reason: reasonOf(complaint).slice(0, 200), ...(unsaid > 0 && { unsaid }) },
        "traces cannot be exported",
      );
      nextMs = now + BETWEEN_LINES_MS;
      unsaid = 0;
    }
  };
  const silent = () => {};
  return { error: say, warn: say, info: silent, debug: silent, verbose: silent };
}

function reasonOf(complaint: string): string {
  if (!complaint.startsWith("{")) return complaint;
  const { code, message } = JSON.parse(complaint);
  return String(code ?? message);
}
