import { describe, expect, test } from "vitest";
import { ChatTemplate, type Conversation } from "../../../../engine/conversation/chat-template.ts";
import { SYSTEM_PLACES } from "../../../../engine/conversation/history/model-history.ts";
import { ControlTokens } from "../../../../engine/conversation/prompt-pieces.ts";
import { builtInProfiles, type ModelProfile, textCallsOf } from "../../../../engine/profiles/profile.ts";
import { type Message, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, part, result, system, text, tool, user } from "../../../support/engine/canonical.ts";
import { FAMILY_TEMPLATES } from "../../../support/engine/family-templates.ts";

const PROFILES = builtInProfiles();
const TOOLS = [tool("look", "", { type: "object", properties: { scale: { type: "string", default: null } } })];

const templateOf = (source: string, { callIds, historyArguments, historyReasoning, ...profile }: ModelProfile) =>
  new ChatTemplate({
    source,
    bosToken: "",
    eosToken: "",
    controlTokens: new ControlTokens([]),
    callIds,
    historyArguments,
    historyReasoning,
    textCalls: textCallsOf(profile),
  });

const answers = (callId: string, content: string): Message => ({
  role: Role.TOOL,
  parts: [result(content, "look", callId)],
});
const failed: Message = {
  role: Role.TOOL,
  parts: [part({ $case: "toolResult", value: { callId: "c1", name: "look", content: [], isError: true } })],
};

/** Conversations of agents, and the words that the prompt must contain, in order. */
const CONVERSATIONS: Readonly<
  Record<string, { readonly messages: readonly Message[]; readonly words: readonly string[] }>
> = {
  "instructions and a developer's message before a user's": {
    messages: [system("alpha"), system("beta"), user("gamma")],
    words: ["alpha\nbeta", "gamma"],
  },
  "a system message between two users": {
    messages: [system("alpha"), user("beta"), system("gamma"), user("delta")],
    words: ["alpha", "beta", "gamma", "delta"],
  },
  "a system message after the model's turn": {
    messages: [system("alpha"), user("beta"), assistant(text("gamma")), system("delta"), user("epsilon")],
    words: ["alpha", "beta", "gamma", "delta", "epsilon"],
  },
  "two users in a row, and two turns of the model": {
    messages: [user("alpha"), user("beta"), assistant(text("gamma")), assistant(text("delta")), user("epsilon")],
    words: ["alpha", "beta", "gamma", "delta", "epsilon"],
  },
  "a call with a null argument, and a user message after its result": {
    messages: [
      user("alpha"),
      assistant(call("look", '{"unit":null,"all":[null]}', "c1")),
      answers("c1", "beta"),
      user("gamma"),
    ],
    words: ["alpha", "CALL", "unit", "beta", "gamma"],
  },
  "a failed tool without output": {
    messages: [user("alpha"), assistant(call("look", "{}", "c1")), failed],
    words: ["alpha", "CALL", "failed"],
  },
  "two calls in one turn, with results in reverse order": {
    messages: [
      user("alpha"),
      assistant(text("beta"), call("look", '{"unit":"one"}', "c1"), call("look", '{"unit":"two"}', "c2")),
      answers("c2", "delta"),
      answers("c1", "gamma"),
      user("epsilon"),
    ],
    words: ["alpha", "beta", "one", "gamma", "epsilon"],
  },
  "two successive calls that share an id": {
    messages: [
      user("alpha"),
      assistant(call("look", '{"unit":"one"}', "c1")),
      answers("c1", "beta"),
      assistant(call("look", '{"unit":"two"}', "c1")),
      answers("c1", "gamma"),
    ],
    words: ["alpha", "one", "beta", "two", "gamma"],
  },
};

test("every profile has a template with the refusals of its family", () => {
  expect(Object.keys(FAMILY_TEMPLATES).sort()).toEqual(PROFILES.map(({ name }) => name).sort());
});

describe.each(PROFILES)("a template in the form of $name", ({ name, profile }) => {
  const template = templateOf(FAMILY_TEMPLATES[name] ?? "", profile);
  const render = (messages: readonly Message[], more: Partial<Conversation> = {}) =>
    template
      .render({ messages, tools: TOOLS, reasoning: false, ...more })
      .map((span) => span.text)
      .join("");

  test.each(Object.entries(CONVERSATIONS))("a template accepts %s", (_what, { messages, words }) => {
    const prompt = render(messages);
    // A template without tools has a mark of text.
    const shown = words.map((word) => (word === "CALL" && profile.toolsAsText ? "<tool_call>" : word));
    const places = shown.map((word) => prompt.lastIndexOf(word));
    expect(places).not.toContain(-1);
    expect(places).toEqual([...places].sort((a, b) => a - b));
  });

  test("a template begins each turn with the prompt of the last turn, wherever a system message comes", () => {
    const history = [
      ...[system("alpha"), system("beta"), user("gamma"), assistant(text("delta"))],
      ...[system("epsilon"), user("zeta"), assistant(text("eta")), user("theta")],
      ...[assistant(call("look", "{}", "c1")), answers("c1", "iota"), assistant(text("kappa")), system("lambda")],
    ];
    const turns = [3, 6, 8, 10, 12].map((end) => render(history.slice(0, end), { closed: true }));
    for (const [at, turn] of turns.entries()) expect(turn.startsWith(turns[at - 1] ?? "")).toBe(true);
  });

  test.each(Object.entries(CONVERSATIONS))("marks the ends of messages of %s", (_what, { messages }) => {
    const head = messages.findIndex(({ role }) => role !== Role.SYSTEM);
    const counts = messages.flatMap((_, index) => (index + 1 < head ? [] : [index + 1]));
    const conversation = { messages, tools: TOOLS, reasoning: false, counts };
    const { spans, places } = template.renderMarked(conversation);
    const prompt = spans.map(({ text }) => text).join("");
    expect(prompt).toBe(render(messages));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places.at(-1)).toBe(prompt.length - "MODEL: ".length);
    for (const [index, place] of places.entries()) {
      const count = counts[index] ?? 0;
      if (messages[count - 1]?.role === Role.ASSISTANT) continue;
      const turn = count === head ? [] : [assistant(text("omega"))];
      const other = [...messages.slice(0, count), ...turn, user("psi")];
      expect(render(other).slice(0, place)).toBe(prompt.slice(0, place));
    }
  });

  test("a template has the rules of its profile, for engines that are not probed", () => {
    const strictness = SYSTEM_PLACES.indexOf(profile.systemMessages);
    expect(strictness).toBe(SYSTEM_PLACES.indexOf(template.turns.systemMessages));
    expect(profile.alternates).toBe(template.turns.alternates);
    expect(profile.singleCalls).toBe(template.turns.singleCalls);
  });
});
