import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../../gateway/errors.ts";
import { compaction } from "../../../../../gateway/formats/responses/request.ts";
import type { Event } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { CONTEXT } from "../../../../support/events/encoding-context.ts";
import { prepared } from "../../../../support/gateway/prepared-answer.ts";
import { answer, folded, text } from "../answers.ts";
import { head, prepare, refusal, sealer } from "./prepared-request.ts";
import { sseEvents } from "./sse-events.ts";

const user = { role: "user", content: "Fix the test." };
const trigger = { type: "compaction_trigger" };
const tools = [{ type: "function", name: "read" }];
const context = { ...CONTEXT, sealer: () => sealer, acceptsImages: () => true };

const prepareCompact = (extra: object) => prepared(compaction, { model: "svc-qwen", input: [user], ...extra }, context);

function compacted(extra: object, events: readonly Event[]) {
  return JSON.parse(JSON.stringify(prepareCompact(extra).reply(head, folded(events))));
}

/** The text of the one message that an item becomes, after one of the user. */
function rendered(item: object): string {
  const { messages } = prepare({ input: [user, item] }).request;
  expect(messages.map(({ role }) => role)).toEqual([Role.USER, Role.USER]);
  const kind = messages[1]?.parts[0]?.kind;
  return kind?.$case === "text" ? kind.value.text : "";
}

describe("a conversation that ends in a trigger", () => {
  test("keeps its prefix and its tools, ends in the request for a summary, and calls no tool", () => {
    const format = { type: "json_schema", name: "n", schema: { type: "object" } };
    const more = { instructions: "Be brief.", tools, tool_choice: "required", text: { format } };
    const plain = prepare({ input: [user], instructions: "Be brief.", tools }).request;
    const { request } = prepare({ input: [user, trigger], ...more });
    expect(request.messages.slice(0, -1)).toEqual(plain.messages);
    expect(request.messages.at(-1)).toMatchObject({ role: Role.USER });
    expect(request.tools).toEqual(plain.tools);
    expect(request.toolChoice?.mode).toBe(ToolChoiceMode.NONE);
    expect(request.outputConstraint).toBeUndefined();
    expect(prepare({ input: [user, trigger] }).request.toolChoice).toBeUndefined();
  });

  test.each([
    [[trigger, user], "input[0].type"],
    [[user, trigger, trigger], "input[1].type"],
    [[trigger], "input[0].type"],
  ])("is refused as %j", (input, path) => {
    expect(refusal({ input }).slice(0, 2)).toEqual(["invalid_value", path]);
  });

  test("sends keep-alives, and reports a failure", () => {
    const stream = prepare({ input: [user, trigger] }).encoder(head);
    const events = sseEvents(stream.keepAlive() + stream.fail(new ApiError("timeout", "late")));
    expect(events.map(({ type }) => type)).toEqual([
      "response.created",
      "response.in_progress",
      "keepalive",
      "response.failed",
    ]);
  });
});

describe("the endpoint that only compacts", () => {
  test("keeps the newest messages that fit", () => {
    const input = ["old", "é".repeat(127_000), "new"].map((content) => ({ role: "user", content }));
    const kept = (items: readonly object[]) => compacted({ input: items }, answer([text("Done.")])).output.length - 1;
    expect(kept(input)).toBe(3);
    expect(kept([...input, { role: "user", content: "x".repeat(1_995) }])).toBe(3);
    expect(kept([...input, { role: "user", content: "x".repeat(2_000) }])).toBe(2);
  });
});

describe("a compaction that comes back", () => {
  test("is one user message, followed by an answer", () => {
    expect(
      rendered({ type: "compaction", id: "cmp_1", encrypted_content: sealer.seal("Half done.", "summary") }),
    ).toMatch(/^What came before was summarised[\s\S]*\n\nHalf done\.\n\n/);
  });

  test.each([{}, { encrypted_content: null }])("is refused as %j", (fields) => {
    expect(refusal({ input: [{ type: "compaction", ...fields }] }).slice(0, 2)).toEqual([
      "missing_required_parameter",
      "input[0].encrypted_content",
    ]);
  });
});
