import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import { CHAT_UNTAKEN } from "../../../../gateway/formats/chat/schema.ts";
import { countTokens, messages } from "../../../../gateway/formats/messages/request.ts";
import { MESSAGES_UNTAKEN } from "../../../../gateway/formats/messages/schema.ts";
import { refuseUntaken } from "../../../../gateway/formats/request-body.ts";
import { CONTEXT } from "../../../support/events/encoding-context.ts";
import { faultOf } from "./thrown-by.ts";

const MINIMAL = { model: "svc-qwen", max_tokens: 16, messages: [{ role: "user", content: "hi" }] };

describe.each([
  ["chat", CHAT_UNTAKEN, (body: object) => chat.prepare(body, CONTEXT).request],
  ["messages", MESSAGES_UNTAKEN, (body: object) => messages.prepare(body, CONTEXT).request],
  ["count_tokens", MESSAGES_UNTAKEN, (body: object) => countTokens.prepare(body, CONTEXT).request],
] as const)("%s", (_, fields, prepare) => {
  const plain = prepare(MINIMAL);

  test.each(fields.filter(({ becomes }) => becomes === "refused"))("$field is refused by name", (row) => {
    const { field, neutral = [] } = row;
    for (const value of ["other", 7, [1]])
      expect(faultOf(() => prepare({ ...MINIMAL, [field]: value }))).toEqual({
        code: "unsupported_parameter",
        param: field,
      });
    for (const value of [null, ...neutral]) expect(prepare({ ...MINIMAL, [field]: value })).toEqual(plain);
  });

  test.each(fields.filter(({ becomes }) => becomes === "ignored"))("$field changes nothing", ({ field }) => {
    for (const value of ["other", 7, [1], { a: 1 }, true])
      expect(prepare({ ...MINIMAL, [field]: value })).toEqual(plain);
  });
});

test("no field is in a list twice", () => {
  for (const fields of [CHAT_UNTAKEN, MESSAGES_UNTAKEN]) {
    const names = fields.map(({ field }) => field);
    expect(new Set(names).size).toBe(names.length);
  }
});

describe("fields that real agents send are not refused", () => {
  const folder = join(import.meta.dirname, "..", "..", "..", "agent-requests");
  // One SDK first sends a thread, and repeats the request without it when it is refused.
  const files = readdirSync(folder).filter((name) => name.endsWith(".json") && !name.includes("-thread-"));

  test.each(files)("%s", (name) => {
    const { path, body } = JSON.parse(readFileSync(join(folder, name), "utf8"));
    if (path.startsWith("/v1/responses")) return;
    const fields = path.startsWith("/v1/messages") ? MESSAGES_UNTAKEN : CHAT_UNTAKEN;
    expect(() => refuseUntaken(body, fields)).not.toThrow();
  });
});
