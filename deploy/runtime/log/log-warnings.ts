import type { Logger } from "pino";
import { crashReport } from "../process/end-on-crash.ts";

/**
 * The codes of warnings without use for an operator: grpc-js names an endpoint's IP address as if it were a host name,
 * which Node leaves out of the handshake, as it should be.
 */
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
