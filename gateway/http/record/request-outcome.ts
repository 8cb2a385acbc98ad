import { END_REASONS, type EndReason, type RequestOutcome } from "../../outcome.ts";

/**
 * How a request ended, as one word. `code` is the status that was sent, 0 for none; where it says nothing bad the end reason
 * decides, as a stream that failed half-way was sent 200 all the same.
 */
export function requestOutcome(code: number, endReason: EndReason | undefined): RequestOutcome {
  if (code === 0) return "client_closed";
  if (code === 429) return "rate_limited";
  if (code >= 500) return "server_error";
  if (code >= 400) return "client_error";
  return endReason === undefined ? "ok" : END_REASONS[endReason].outcome;
}
