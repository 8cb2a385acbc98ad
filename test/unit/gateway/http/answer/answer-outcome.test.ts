import type { ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { ApiError, type ErrorCode } from "../../../../../gateway/errors.ts";
import { chat } from "../../../../../gateway/formats/chat/request.ts";
import { failureOf } from "../../../../../gateway/http/answer/answer-outcome.ts";
import { RunningAnswers } from "../../../../../gateway/http/answer/running-answers.ts";
import { newFacts } from "../../../../../gateway/http/record/request-facts.ts";
import { routeLabels } from "../../../../../gateway/http/record/route-labels.ts";
import { traceContextOf } from "../../../../../gateway/http/record/trace-context.ts";
import type { Detail } from "../../../../../gateway/outcome.ts";
import { routeAt } from "../../../../../gateway/routes.ts";

function failed(code: ErrorCode, detail: Detail, before: (running: RunningAnswers) => void = () => {}) {
  const running = new RunningAnswers();
  const answer = running.begin(new PassThrough() as unknown as ServerResponse);
  before(running);
  const facts = newFacts(0, routeLabels(routeAt("/v1/chat/completions")), traceContextOf({}));
  const shown = failureOf(new ApiError(code, "It failed.", { detail }), facts, chat, answer, running);
  return { shown, facts };
}

test.each([
  ["engine_unavailable", "upstream_reset", "engine_died"],
  ["server_is_overloaded", "upstream_connect_failure", "engine_died"],
  ["engine_unavailable", "upstream_per_try_idle_timeout", "stall"],
  ["server_is_overloaded", "upstream_accept_timeout", "stall"],
  ["server_is_overloaded", "upstream_pending_timeout", "shed"],
  ["server_is_overloaded", "no_healthy_upstream", "shed"],
  ["timeout", "upstream_timeout", "deadline"],
  ["server_error", "request_of_death", "error"],
  // No engine died here: these ones drained, loaded, had another model, or were never asked.
  ["server_is_overloaded", "upstream_draining", "shed"],
  ["server_is_overloaded", "upstream_loading", "shed"],
  ["server_is_overloaded", "upstream_model_not_served", "shed"],
  ["server_is_overloaded", "request_of_death_suspected", "shed"],
] as const)("%s with the token %s ends as %s", (code, detail, endReason) => {
  expect(failed(code, detail).facts).toMatchObject({ detail, endReason });
});

test("what was told to stop ends as drain, whatever broke", () => {
  const { shown, facts } = failed("engine_unavailable", "upstream_reset", (running) => running.stop());
  expect(facts).toMatchObject({ detail: "drain_timeout", endReason: "drain" });
  expect(shown.code).toBe("server_is_overloaded");
});
