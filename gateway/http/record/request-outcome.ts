import type { EndReason } from "./request-facts.ts";

/** How a request ended, as one word for its stats. */
export type RequestOutcome = "ok" | "client_error" | "rate_limited" | "client_closed" | "server_error";

const BY_END: Readonly<Record<EndReason, RequestOutcome>> = {
  complete: "ok",
  length: "ok",
  client_closed: "client_closed",
  slow_reader: "client_closed",
  engine_died: "server_error",
  stall: "server_error",
  deadline: "server_error",
  shed: "server_error",
  drain: "server_error",
  error: "server_error",
};

/** `code`: the status that was sent, 0 for none. A stream that failed half-way was sent 200 all the same. */
export function requestOutcome(code: number, endReason: EndReason | undefined): RequestOutcome {
  if (code === 0) return "client_closed";
  if (code === 429) return "rate_limited";
  if (code >= 500) return "server_error";
  if (code >= 400) return "client_error";
  return endReason === undefined ? "ok" : BY_END[endReason];
}
