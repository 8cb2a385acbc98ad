import { describe, expect, test } from "vitest";
import { ANY_ORDER, type PromptCount, turnRulesOfCounts } from "../../../../engine/conversation/turn-rules.ts";
import { type Message, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";

const later = (messages: readonly Message[]) => messages.some(({ role }, at) => role === Role.SYSTEM && at > 0);
const anywhere = (messages: readonly Message[]) => messages.some(({ role }) => role === Role.SYSTEM);
const together = (messages: readonly Message[]) =>
  messages.some(({ role }, at) => role === Role.USER && messages[at - 1]?.role === Role.USER);
const behindTool = (messages: readonly Message[]) =>
  messages.some(({ role }, at) => role === Role.USER && messages[at - 1]?.role === Role.TOOL);
const severalCalls = (messages: readonly Message[]) => messages.some(({ parts }) => parts.length > 1);

/** Counts one token per message, as an engine whose template refuses conversations by `refuses`. */
const refusing = (refuses: (messages: readonly Message[]) => boolean) => async (messages: readonly Message[]) =>
  refuses(messages) ? ("refused" as const) : messages.length;
/** Counts one token per message, as an engine whose template drops messages by `drops`. */
const dropping = (drops: (message: Message, at: number) => boolean) => async (messages: readonly Message[]) =>
  messages.filter((message, at) => !drops(message, at)).length;

describe("the sizes of prompts show the rules of a template", () => {
  const cases: readonly [
    what: string,
    count: (messages: readonly Message[]) => Promise<PromptCount>,
    rules: Partial<typeof ANY_ORDER>,
  ][] = [
    ["a template that accepts every order", refusing(() => false), {}],
    ["one that refuses a later system message", refusing(later), { systemMessages: "first" }],
    [
      "one that drops a later system message",
      dropping(({ role }, at) => role === Role.SYSTEM && at > 0),
      { systemMessages: "first" },
    ],
    ["one that refuses every system message", refusing(anywhere), { systemMessages: "nowhere" }],
    [
      "one that drops every system message",
      dropping(({ role }) => role === Role.SYSTEM),
      { systemMessages: "nowhere" },
    ],
    ["one that refuses two users in a row", refusing(together), { alternates: true }],
    ["one that refuses a user after a tool", refusing(behindTool), { alternates: true }],
    ["one that refuses two calls at once", refusing(severalCalls), { singleCalls: true }],
    ["one that refuses all conversations", refusing(() => true), {}],
    ["an engine that does not count", async () => "unknown", {}],
  ];
  test.each(cases)("%s", async (_what, count, rules) => {
    expect(await turnRulesOfCounts(count, ANY_ORDER)).toEqual({ ...ANY_ORDER, ...rules });
  });
});

test("the family's known rules apply where sizes do not show them, and without counts", async () => {
  const known = { systemMessages: "first", alternates: true, singleCalls: true } as const;
  expect(
    await turnRulesOfCounts(
      refusing(() => false),
      known,
    ),
  ).toEqual(known);
  expect(await turnRulesOfCounts(async () => "unknown", known)).toEqual(known);
  expect(await turnRulesOfCounts(refusing(anywhere), known)).toEqual({ ...known, systemMessages: "nowhere" });
});
