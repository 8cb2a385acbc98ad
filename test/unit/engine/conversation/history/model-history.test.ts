import { describe, expect, test } from "vitest";
import {
  ANY_ORDER,
  type CallIdRule,
  FAILED_TOOL,
  modelHistory,
  type TurnRules,
  textOf,
} from "../../../../../engine/conversation/history/model-history.ts";
import { toTemplateValue } from "../../../../../engine/conversation/history/template-messages.ts";
import { type PromptCount, turnRulesOfCounts } from "../../../../../engine/conversation/history/turn-rules.ts";
import { JsonNumber } from "../../../../../engine/conversation/jinja/values.ts";
import { type Message, Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, part, result, system, text, toolResult, user } from "../../../../support/engine/canonical.ts";

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
  test.each(cases)("the sizes of prompts show the rules of a template: %s", async (_what, count, rules) => {
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

const history = (messages: readonly Message[], turns: Partial<TurnRules> = {}, callIds: CallIdRule = "any") =>
  modelHistory(messages, { turns: { ...ANY_ORDER, ...turns }, callIds, images: false });
const textsOf = (messages: readonly Message[], turns: Partial<TurnRules> = {}) =>
  history(messages, turns).map(({ role, parts }) => `${role}: ${textOf(parts)}`);
const answers = (callId: string, content = "ok"): Message => ({
  role: Role.TOOL,
  parts: [result(content, "f", callId)],
});
const idsOf = (messages: readonly Message[]) =>
  messages.flatMap(({ parts }) =>
    parts.flatMap(({ kind }) =>
      kind?.$case === "toolCall" || kind?.$case === "toolResult" ? [kind.value.callId] : [],
    ),
  );

test("leading system messages are joined, as if they were parts of one", () => {
  const marked = { ...text("b"), cacheBreakpoint: { ttl: undefined } };
  const apart = [system("a"), { role: Role.SYSTEM, parts: [marked] }, system("c"), user("d")];
  const together = [{ role: Role.SYSTEM, parts: [text("a"), marked, text("c")] }, user("d")];
  expect(history(apart)).toEqual(history(together));
});

describe("later system messages", () => {
  const messages = [system("a"), user("b"), system("c"), user("d")];
  test("later system messages become marked user messages if the template accepts only the first", () => {
    expect(textsOf(messages, { systemMessages: "first" })).toEqual([
      "1: a",
      "2: b",
      "2: <system>\nc\n</system>",
      "2: d",
    ]);
  });
});

test("a tool's failure precedes its output, and stands alone without output", () => {
  const failed = (content: readonly string[]): Message => ({
    role: Role.TOOL,
    parts: [
      part({ $case: "toolResult", value: { callId: "c", name: "f", content: content.map(text), isError: true } }),
    ],
  });
  const contents = history([failed(["no such file"]), failed([]), toolResult("fine")]).map(({ parts: [first] }) =>
    first?.kind?.$case === "toolResult" ? textOf(first.kind.value.content) : undefined,
  );
  expect(contents).toEqual([`${FAILED_TOOL}\nno such file`, FAILED_TOOL, "fine"]);
});

describe("calls that share an id keep their order", () => {
  test("calls that share an id keep their order in one turn", () => {
    const together = [assistant(call("f", "{}", "x"), call("g", "{}", "x")), answers("x"), answers("x")];
    const [first, second] = ["functions.f:0", "functions.g:1"];
    expect(idsOf(history(together, {}, "functions.name:index"))).toEqual([first, second, first, second]);
  });
});

test.each(["abcDEF012", "call_abcDEF012", "toolu_abcDEF012"])("the nine characters of %s are kept", (callId) => {
  expect(idsOf(history([assistant(call("f", "{}", callId))], {}, "nine-characters"))).toEqual(["abcDEF012"]);
});

test("joining, splitting and renumbering twenty thousand messages takes linear time", () => {
  const many = <One>(make: (at: number) => One) => Array.from({ length: 20_000 }, (_, at) => make(at));
  const messages = [
    ...many(() => system("a")),
    ...many(() => user("a")),
    ...many((at) => (at % 2 ? answers("x") : assistant(call("f", "{}", "x"), call("f", "{}", "x")))),
  ];
  const rules: TurnRules = { systemMessages: "first", alternates: true, singleCalls: true };
  const shown = history(messages, rules, "functions.name:index");
  expect(shown).toHaveLength(2 + 30_000);
});

describe("an unsupported message is refused with the path in the caller's request", () => {
  const image = part({
    $case: "image",
    value: { source: { $case: "uri", value: "x" }, mimeType: "image/png", detail: 0, contentSha256: Buffer.alloc(0) },
  });
  const shown = part({
    $case: "toolResult",
    value: { callId: "c", name: "f", content: [text("a"), image], isError: false },
  });
  const cases: readonly [what: string, last: Message, path: string][] = [
    ["an image", { role: Role.USER, parts: [text("a"), image] }, "messages[3].parts[1]"],
    ["an image of a tool", { role: Role.TOOL, parts: [shown] }, "messages[3].parts[0].content[1]"],
    ["a message without a role", { role: Role.UNSPECIFIED, parts: [] }, "messages[3].role"],
  ];
  test.each(cases)(
    "%s that a model does not take is refused with its path in the caller's request",
    (_what, last, path) => {
      expect(() => history([system("a"), system("b"), user("c"), last])).toThrow(`${path}: `);
    },
  );
});

const asItIs = (text: string) => text;
const number = (lexeme: string) => new JsonNumber(lexeme);

describe("JSON keeps details that JavaScript would lose", () => {
  const cases: readonly [json: string, value: unknown][] = [
    [
      '{"a": [1, -2, 0.5, true, false, null, "x"]}',
      new Map([["a", [number("1"), number("-2"), number("0.5"), true, false, null, "x"]]]),
    ],
    ['{"id": 12345678901234567890}', new Map([["id", number("12345678901234567890")]])],
    [
      '{"far": 1e400, "near": -0}',
      new Map([
        ["far", number("1e400")],
        ["near", number("-0")],
      ]),
    ],
    [
      '{"2": {}, "1": []}',
      new Map<string, unknown>([
        ["2", new Map()],
        ["1", []],
      ]),
    ],
    ['{"__proto__": "x"}', new Map([["__proto__", "x"]])],
    [' [ { "text" : "12.0 {\\"1\\": [2.0], true} \\\\" } ] ', [new Map([["text", '12.0 {"1": [2.0], true} \\']])]],
    ['"x"', "x"],
  ];
  test.each(cases)("JSON for a template keeps details that JavaScript would lose: %s", (json, value) => {
    const read = toTemplateValue(json, asItIs);
    expect(read).toEqual(value);
    if (read instanceof Map && value instanceof Map) expect([...read.keys()]).toEqual([...value.keys()]);
  });
});

test("millions of escapes and brackets are read in linear time", () => {
  const escapes = '"\\'.repeat(2_000_000);
  const read = toTemplateValue(JSON.stringify({ a: escapes, b: "c" }), asItIs);
  expect(read).toEqual(
    new Map([
      ["a", escapes],
      ["b", "c"],
    ]),
  );
  expect(toTemplateValue("[".repeat(3_000_000), asItIs)).toBeUndefined();
});
