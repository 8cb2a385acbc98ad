import { describe, expect, test } from "vitest";
import { shownTools } from "../../../../../deploy/runtime/contract/shown-tools.ts";
import { ChatTemplate } from "../../../../../engine/conversation/chat-template.ts";
import { withDeclaredTools } from "../../../../../engine/conversation/history/declared-tools.ts";
import { ANY_ORDER, modelHistory, textOf } from "../../../../../engine/conversation/history/model-history.ts";
import { ControlTokens } from "../../../../../engine/conversation/prompt-pieces.ts";
import { builtInProfiles, textCallsOf } from "../../../../../engine/profiles/profile.ts";
import { type Message, type Part, Role } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, declaration, part, system, text, tool, user } from "../../../../support/engine/canonical.ts";
import { FAMILY_TEMPLATES } from "../../../../support/engine/family-templates.ts";
import { PROFILE_SHAPES } from "../../../../support/templates/profile-shapes.ts";

/* A deferred tool stands where a message declares it, and changes nothing in front of that place. */

const SEARCH = tool("search", "Finds tools.");
const FETCH = { ...tool("fetch", 'Gets a "page".'), deferred: true };
const PRINT = { ...tool("print", "", {}), parametersJsonSchema: "", deferred: true };
const TOOLS = [SEARCH, FETCH, PRINT];
const FETCH_TEXT =
  '{"type": "function", "function": {"name": "fetch", "description": "Gets a \\"page\\".", "parameters": ' +
  `${FETCH.parametersJsonSchema}}}`;
const PRINT_TEXT = '{"type": "function", "function": {"name": "print", "parameters": {}}}';

const found = (...content: readonly Part[]): Message => ({
  role: Role.TOOL,
  parts: [part({ $case: "toolResult", value: { callId: "c1", name: "search", content, isError: false } })],
});
const contentOf = ({ parts }: Message): readonly Part[] =>
  parts.flatMap((each) => (each.kind?.$case === "toolResult" ? each.kind.value.content : [each]));
const read = (...messages: readonly Message[]) => withDeclaredTools(messages, TOOLS).map((m) => textOf(contentOf(m)));

test("a declaration is the JSON text of its tools, in its order", () => {
  expect(read(found(text("Found:"), declaration("print", "fetch")))).toEqual([`Found:\n${PRINT_TEXT}\n${FETCH_TEXT}`]);
  expect(read({ role: Role.USER, parts: [declaration("fetch"), text("Go.")] })).toEqual([`${FETCH_TEXT}\nGo.`]);
  expect(read({ role: Role.SYSTEM, parts: [declaration("print")] })).toEqual([PRINT_TEXT]);
});

test("only the first declaration of a tool writes it, and one of no deferred tool is left out", () => {
  const again = found(text("a"), declaration("fetch", "search", "gone"), text("b"));
  expect(read(again, again)).toEqual([`a\n${FETCH_TEXT}\nb`, "a\nb"]);
});

test("a tool is shown where it is not deferred, or declared", () => {
  const names = (...messages: readonly Message[]) => shownTools(TOOLS, messages).map(({ name }) => name);
  expect(names(user("Hi"))).toEqual(["search"]);
  expect(names(user("Hi"), found(declaration("print", "gone")))).toEqual(["search", "print"]);
});

test("a schema that is no JSON object is refused by the tool's place in the request", () => {
  for (const schema of ["[]", "{", '"a"', `{"a":${"[".repeat(200)}${"]".repeat(200)}}`]) {
    const tools = [SEARCH, { ...FETCH, parametersJsonSchema: schema }];
    expect(() => withDeclaredTools([found(declaration("fetch"))], tools)).toThrow(
      expect.objectContaining({ reason: "INVALID_SCHEMA", facts: { field: "tools[1].parameters_json_schema" } }),
    );
  }
});

test("the model itself declares nothing", () => {
  const messages = withDeclaredTools([user("Hi"), assistant(declaration("fetch"))], TOOLS);
  expect(() => modelHistory(messages, { turns: ANY_ORDER, callIds: "any", images: false })).toThrow(
    expect.objectContaining({ reason: "INVALID_REQUEST", message: expect.stringContaining("messages[1].parts[0]") }),
  );
});

const SOURCES = [FAMILY_TEMPLATES, PROFILE_SHAPES].flatMap((sources) =>
  builtInProfiles().flatMap(({ name, profile }) => {
    const source = sources[name];
    return source === undefined ? [] : [{ name, profile, source }];
  }),
);

describe.each(SOURCES)("the template of $name", ({ profile, source }) => {
  const { callIds, historyArguments, historyReasoning } = profile;
  const controlTokens = new ControlTokens([{ text: "<b>", stripsLeft: false }]);
  const options = { bosToken: "", eosToken: "", controlTokens, callIds, historyArguments, historyReasoning };
  const template = new ChatTemplate({ source, ...options, textCalls: textCallsOf(profile) });
  const spans = (messages: readonly Message[], tools = TOOLS) =>
    template.render({ messages, tools, reasoning: false, closed: true });
  const render = (messages: readonly Message[], tools = TOOLS) =>
    spans(messages, tools)
      .map((span) => span.text)
      .join("");

  const before = [system("Be brief."), user("Get the page.")];
  const search = assistant(call("search", '{"city":"fetch"}', "c1"));
  const after = [...before, search, found(text("Tool found: fetch"), declaration("fetch"))];

  test("the template shows a deferred tool behind the prompt of the turn before, and not earlier", () => {
    expect(render(before)).toBe(render(before, [SEARCH]));
    expect(render(after).startsWith(render(before))).toBe(true);
    expect(render(after).replaceAll("\\", "")).toContain(FETCH_TEXT.replaceAll("\\", ""));
    expect(render(after)).not.toContain("print");
  });

  test("the template keeps what it showed when another tool comes", () => {
    const then = [...after, search, found(declaration("print", "fetch"))];
    expect(render(then).startsWith(render(after))).toBe(true);
    expect(render(then).replaceAll("\\", "").split(FETCH_TEXT.replaceAll("\\", ""))).toHaveLength(2);
  });

  test("the template takes no control token out of a declared tool", () => {
    const marked = [SEARCH, { ...FETCH, description: "<b>", parametersJsonSchema: '{"title":"<b>"}' }];
    const texts = spans(after, marked).flatMap(({ text: own, origin }) => (origin === "template" ? [own] : []));
    expect(texts.join("")).not.toContain("<b>");
  });
});
