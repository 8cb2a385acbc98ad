import { expect, test } from "vitest";
import { requestOutcome } from "../../../../../gateway/http/record/request-outcome.ts";

test.each([
  [0, undefined, "client_closed"],
  [0, "client_closed", "client_closed"],
  [200, undefined, "ok"],
  [200, "complete", "ok"],
  [200, "length", "ok"],
  [200, "engine_died", "server_error"],
  [200, "stall", "server_error"],
  [200, "deadline", "server_error"],
  [200, "shed", "server_error"],
  [200, "drain", "server_error"],
  [200, "error", "server_error"],
  [200, "client_closed", "client_closed"],
  [200, "slow_reader", "client_closed"],
  [400, "error", "client_error"],
  [404, undefined, "client_error"],
  [429, undefined, "rate_limited"],
  [503, "error", "server_error"],
  [529, undefined, "server_error"],
] as const)("status %s and end %s is %s", (code, endReason, outcome) => {
  expect(requestOutcome(code, endReason)).toBe(outcome);
});
