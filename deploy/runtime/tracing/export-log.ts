import type { DiagLogger } from "@opentelemetry/api";
import type { Logger } from "pino";

/** Least milliseconds between two lines: every export to a collector that is down fails. */
const BETWEEN_LINES_MS = 60_000;

/**
 * Makes the logger that writes errors of the SDK to `log`, at most one line a minute; the field `unsaid` counts the
 * errors omitted since the line before. `nowMs` returns monotonic milliseconds.
 * The SDK reports a failed export as JSON. Only its code, or the SDK's own message, is logged: the rest may be text of
 * the collector.
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
