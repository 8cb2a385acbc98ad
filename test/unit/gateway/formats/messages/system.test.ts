import { describe, expect, test } from "vitest";
import { refuseSystemRole, systemMessage } from "../../../../../gateway/formats/messages/conversation.ts";
import { Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { thrownBy } from "../thrown-by.ts";
import { errorOf } from "./fixture.ts";

const text = (value: string, more: object = {}) => ({ type: "text", text: value, ...more });
const textPart = (value: string) => ({ kind: { $case: "text", value: { text: value } } });

describe("systemMessage", () => {
  test("a string and one text block are the same message", () => {
    expect(systemMessage("Be brief.")).toEqual({ role: Role.SYSTEM, parts: [textPart("Be brief.")] });
    expect(systemMessage([text("Be brief.")])).toEqual(systemMessage("Be brief."));
  });

  test.each([[undefined], [null], [""], [[]], [[text("")]]])("%j is no system message", (system) => {
    expect(systemMessage(system)).toBeUndefined();
  });

  test("the attribution block does not reach the prompt, so that its hash cannot change it", () => {
    const rest = [text("You are an agent."), text("Rules.")];
    const withHash = (hash: string) => systemMessage([text(`x-anthropic-billing-header: cch=${hash};`), ...rest]);
    expect(withHash("a1")).toEqual(systemMessage(rest));
    expect(withHash("b2")).toEqual(withHash("a1"));
    expect(systemMessage("x-anthropic-billing-header: cch=a1;\nBe brief.")).toEqual(systemMessage("Be brief."));
    expect(systemMessage("x-anthropic-billing-header: cch=a1;")).toBeUndefined();
  });

  test("a cache breakpoint stays at its block", () => {
    const message = systemMessage([text("a", { cache_control: { type: "ephemeral", ttl: "1h" } }), text("b")]);
    expect(message?.parts).toEqual([
      { ...textPart("a"), cacheBreakpoint: { ttl: { seconds: 3600, nanos: 0 } } },
      textPart("b"),
    ]);
  });

  test.each([
    [7, "system: Input should be a string or an array of text blocks"],
    [["x"], "system.0: Input should be an object"],
    [[{ text: "x" }], "system.0.type: Field required"],
    [[text("x"), { type: "image" }], "system.1.type: Input should be 'text'"],
    [[{ type: "text" }], "system.0.text: Field required"],
  ])("%j is refused", (system, message) => {
    expect(errorOf(() => systemMessage(system))).toEqual({ type: "invalid_request_error", message });
  });
});

describe("refuseSystemRole", () => {
  const body = (...roles: string[]) => ({ messages: roles.map((role) => ({ role, content: "x" })) });

  test("the message is the one that makes agents repeat the request without the role", () => {
    const error = thrownBy(() => refuseSystemRole(body("user", "system", "system")));
    expect(error.message).toBe(
      "messages.1.role: Unexpected role 'system'. role 'system' is not supported on this model: 'system' is not a valid " +
        "input message role; use the top-level 'system' parameter.",
    );
    expect(error).toMatchObject({ code: "invalid_value", detail: "system_role_in_messages" });
    expect(error.path).toEqual(["messages", 1, "role"]);
  });

  test.each([[body("user", "assistant")], [{}], [{ messages: "system" }], [{ messages: [null, 1, "system"] }]])(
    "%j passes on to the other checks",
    (value) => {
      expect(() => refuseSystemRole(value)).not.toThrow();
    },
  );
});
