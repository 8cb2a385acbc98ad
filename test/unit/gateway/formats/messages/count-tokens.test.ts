import { describe, expect, test } from "vitest";
import { countTokens, messages } from "../../../../../gateway/formats/messages/request.ts";
import { context, errorOf, minimal } from "./fixture.ts";

const { max_tokens: _, ...withoutLimit } = minimal;

describe("countTokens", () => {
  test("needs no max_tokens, and accepts any", () => {
    const { model, request } = countTokens.prepare(withoutLimit, context);
    expect(model).toBe("svc-qwen");
    expect(request.messages).toHaveLength(1);
    for (const max_tokens of [null, 0, "x", 5])
      expect(countTokens.prepare({ ...withoutLimit, max_tokens }, context).request).toEqual(request);
  });

  test("counts the prompt that the same message would have", () => {
    const body = {
      ...minimal,
      system: [
        { type: "text", text: "x-anthropic-billing-header: a" },
        { type: "text", text: "s" },
      ],
      tools: [{ name: "read", input_schema: {} }],
      tool_choice: { type: "any" },
      thinking: { type: "enabled", budget_tokens: 100 },
      output_config: { effort: "high" },
      cache_control: { type: "ephemeral" },
    };
    const asked = messages.prepare(body, context).request;
    const { model, messages: turns, tools, toolChoice, reasoning } = asked;
    expect(countTokens.prepare(body, context).request).toEqual({
      model,
      messages: turns,
      tools,
      toolChoice,
      reasoning,
    });
  });

  test.each([
    [{ ...minimal, messages: [{ role: "system", content: "x" }] }, /role 'system' is not supported/],
    [{ ...minimal, model: "gpt-4o" }, /^model: The model 'gpt-4o' does not exist/],
    [{ ...minimal, messages: [] }, /^messages: /],
    [{ ...minimal, tools: [{ type: "web_search_20250305", name: "web_search" }] }, /^tools\.0\.input_schema: /],
    [{ ...minimal, temperature: 2 }, /^temperature: /],
  ])("%j is refused as for a message", (body, message) => {
    expect(errorOf(() => countTokens.prepare(body, context)).message).toMatch(message);
    expect(errorOf(() => messages.prepare(body, context)).message).toMatch(message);
  });
});
