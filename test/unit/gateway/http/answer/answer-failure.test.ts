import type { ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { ApiError, type ErrorCode } from "../../../../../gateway/errors.ts";
import { chat } from "../../../../../gateway/formats/chat/request.ts";
import { answerFailure } from "../../../../../gateway/http/answer/answer-failure.ts";
import { RunningAnswers } from "../../../../../gateway/http/answer/running-answers.ts";
import type { Detail } from "../../../../../gateway/outcome.ts";
import { newRecord } from "../../../../support/requests/closed-request.ts";

function failed(code: ErrorCode, detail: Detail, before: (running: RunningAnswers) => void = () => {}) {
  const running = new RunningAnswers();
  const answer = running.begin(new PassThrough() as unknown as ServerResponse);
  before(running);
  const record = newRecord();
  const shown = answerFailure(new ApiError(code, "It failed.", { detail }), {
    record,
    format: chat,
    prepared: {},
    answer,
    running,
  });
  return { shown, closed: record.closed(200, true) };
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
  expect(failed(code, detail).closed).toMatchObject({ detail, endReason });
});

test("what was told to stop ends as drain, whatever broke", () => {
  const { shown, closed } = failed("engine_unavailable", "upstream_reset", (running) => running.stop());
  expect(closed).toMatchObject({ detail: "drain_timeout", endReason: "drain" });
  expect(shown.code).toBe("server_is_overloaded");
});
