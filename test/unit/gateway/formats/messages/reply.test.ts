import { describe, expect, test } from "vitest";
import { messages } from "../../../../../gateway/formats/messages/request.ts";
import { FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { prepared } from "../../../../support/gateway/prepared-answer.ts";
import { answer, call, folded, reasoning, text } from "../answers.ts";
import { context, head, minimal } from "./fixture.ts";

function reply(events: Parameters<typeof folded>[0], more: object = {}) {
  return prepared(messages, { ...minimal, ...more }, context).reply(head, folded(events));
}

describe("the folded reply", () => {
  test("has every field of a message and no citations", () => {
    const blocks = [reasoning("Look ", "first."), text("Read", "ing."), call("call_2", "read", '{"path":', '"a.ts"}')];
    expect(reply(answer(blocks, FinishReason.TOOL_CALLS))).toEqual({
      id: "msg_000000000000000000000001",
      type: "message",
      role: "assistant",
      model: "svc-qwen",
      content: [
        { type: "thinking", thinking: "Look first.", signature: "signed(11)" },
        { type: "text", text: "Reading." },
        { type: "tool_use", id: "toolu_2", name: "read", input: { path: "a.ts" } },
      ],
      stop_reason: "tool_use",
      stop_sequence: null,
      usage: {
        input_tokens: 24,
        cache_creation_input_tokens: 16,
        cache_read_input_tokens: 80,
        output_tokens: 30,
        output_tokens_details: { thinking_tokens: 7 },
        service_tier: "standard",
      },
    });
  });

  test.each([
    [{ thinking: { type: "disabled" } }, []],
    [{ output_config: { effort: "none" } }, []],
    [
      { thinking: { type: "adaptive", display: "omitted" } },
      [{ type: "thinking", thinking: "", signature: "sealed:Hm." }],
    ],
    [
      { thinking: { type: "adaptive", display: "summarized" } },
      [{ type: "thinking", thinking: "Hm.", signature: "signed(3)" }],
    ],
    [
      { thinking: { type: "adaptive", display: "updates" } },
      [{ type: "thinking", thinking: "Hm.", signature: "signed(3)" }],
    ],
    [{}, [{ type: "thinking", thinking: "Hm.", signature: "signed(3)" }]],
  ])("%j shows thinking as asked", (more, content) => {
    expect(reply(answer([reasoning("Hm.")]), more)).toMatchObject({ content });
  });

  test("withheld thinking reaches the model again when the block comes back", () => {
    const more = { thinking: { type: "adaptive", display: "omitted" } };
    const events = answer([reasoning("Hm."), text("a")]);
    const { content } = JSON.parse(JSON.stringify(reply(events, more)));
    const turns = [...minimal.messages, { role: "assistant", content }, { role: "user", content: "go on" }];
    const next = prepared(messages, { ...minimal, messages: turns }, context).request.messages[1];
    expect(next?.parts[0]).toMatchObject({ kind: { $case: "reasoning", value: { text: "Hm." } } });
  });

  test.each([[[]], [["[1]"]], [['{"a":']], [["nonsense"]]])("arguments %j become an empty input", (deltas) => {
    const block = { ...call("c", "read", ...deltas), complete: false };
    expect(reply(answer([block], FinishReason.MAX_OUTPUT_TOKENS))).toMatchObject({
      content: [{ type: "tool_use", input: {} }],
      stop_reason: "max_tokens",
    });
  });

  test.each([
    [FinishReason.STOP, {}, "end_turn", null],
    [FinishReason.STOP_SEQUENCE, { matchedStop: "END" }, "stop_sequence", "END"],
    [FinishReason.STOP_SEQUENCE, {}, "end_turn", null],
    [FinishReason.MAX_OUTPUT_TOKENS, {}, "max_tokens", null],
    [FinishReason.CONTEXT_WINDOW, {}, "model_context_window_exceeded", null],
    [FinishReason.TOOL_CALLS, {}, "tool_use", null],
    [FinishReason.CONTENT_FILTER, {}, "refusal", null],
    [FinishReason.UNSPECIFIED, {}, "end_turn", null],
  ])("reason %i with %j ends the message as %s", (reason, more, stop_reason, stop_sequence) => {
    expect(reply(answer([], reason, more))).toMatchObject({ stop_reason, stop_sequence });
  });
});
