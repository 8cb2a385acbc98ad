import type { ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../../deploy/runtime/time/clock.ts";
import { ApiError, type ErrorCode } from "../../../../gateway/errors.ts";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import type { Format } from "../../../../gateway/formats/format.ts";
import { messages } from "../../../../gateway/formats/messages/request.ts";
import { responses } from "../../../../gateway/formats/responses/request.ts";
import { answerFailure, located } from "../../../../gateway/http/answer/dispatch-answer.ts";
import { RunningAnswers } from "../../../../gateway/http/answer/running-answers.ts";
import type { Detail } from "../../../../gateway/outcome.ts";
import { CONTEXT } from "../../../support/events/encoding-context.ts";
import { newRecord } from "../../../support/requests/closed-request.ts";

function failed(code: ErrorCode, detail: Detail, before: (running: RunningAnswers) => void = () => {}) {
  const running = new RunningAnswers(systemClock);
  const answer = running.begin(new PassThrough() as unknown as ServerResponse, "keyA");
  before(running);
  const record = newRecord();
  const of = { record, format: chat, places: {}, answer };
  const shown = answerFailure(new ApiError(code, "It failed.", { detail }), of, running);
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
  // No engine was lost here: these were draining, loading, had another model, or were never called.
  ["server_is_overloaded", "upstream_draining", "shed"],
  ["server_is_overloaded", "upstream_loading", "shed"],
  ["server_is_overloaded", "upstream_model_not_served", "shed"],
  ["server_is_overloaded", "request_of_death_suspected", "shed"],
] as const)("%s with the token %s ends as %s", (code, detail, endReason) => {
  expect(failed(code, detail).closed).toMatchObject({ detail, endReason });
});

test("a stopped answer ends as drain, whatever its error", () => {
  const { shown, closed } = failed("engine_unavailable", "upstream_reset", (running) => running.stop());
  expect(closed).toMatchObject({ detail: "drain_timeout", endReason: "drain" });
  expect(shown.code).toBe("server_is_overloaded");
});

describe("a message that the engine refuses is named by the caller's path", () => {
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  const chatList = [
    ...[
      { role: "system", content: "a" },
      { role: "user", content: "b" },
    ],
    ...[
      { role: "assistant", tool_calls: [call] },
      { role: "tool", tool_call_id: "c", content: "d" },
    ],
  ];
  const use = { type: "tool_use", id: "c", name: "f", input: {} };
  const result = { type: "tool_result", tool_use_id: "c", content: "d" };
  const turns = [
    ...[
      { role: "user", content: "a" },
      { role: "assistant", content: [use] },
    ],
    ...[
      { role: "user", content: [result] },
      { role: "user", content: "b" },
    ],
  ];
  const items = [
    ...[
      { role: "user", content: "a" },
      { type: "reasoning", summary: [{ type: "summary_text", text: "b" }] },
    ],
    ...[{ type: "function_call", call_id: "c", name: "f", arguments: "{}" }],
    ...[
      { type: "function_call_output", call_id: "c", output: "d" },
      { role: "user", content: "e" },
    ],
  ];
  const B = { max_tokens: 5, system: "s", messages: turns };
  const cases: readonly [name: string, format: Format, body: object, paths: readonly (readonly unknown[])[]][] = [
    ["chat", chat, { messages: chatList }, [0, 1, 2, 3].map((at) => ["messages", at])],
    ["messages", messages, B, [["system"], ["messages", 0], ["messages", 1], ["messages", 2], ["messages", 3]]],
    [
      "responses",
      responses,
      { instructions: "s", input: items },
      [["instructions"], ["input", 0], ["input", 1], ["input", 3], ["input", 4]],
    ],
    ["responses of one text", responses, { input: "a" }, [["input"]]],
  ];
  test.each(cases)(
    "a message that the engine refuses is named by the caller's path: %s",
    (_name, format, body, paths) => {
      const prepared = format.prepare({ model: "svc-qwen", ...body }, CONTEXT);
      const at = (message: number) =>
        located(new ApiError("invalid_value", "No.", { promptMessage: message }), format.fields, prepared);
      expect(prepared.request.messages.map((_, index) => at(index).path)).toEqual(paths);
    },
  );
});
