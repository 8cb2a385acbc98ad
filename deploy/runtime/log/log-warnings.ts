import type { Logger } from "pino";
import { crashReport } from "../process/end-on-crash.ts";

/**
 * Writes Node's warnings as lines of `log`. Node would write them to standard error as text, where every line is to be
 * JSON. The message is left out, as with errors.
 */
export function logWarnings(log: Logger): void {
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    const { error: _class, ...rest } = crashReport(warning);
    log.warn({ warning: warning.name, ...rest }, "Node warns");
  });
}
