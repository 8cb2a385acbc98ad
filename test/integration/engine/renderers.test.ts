import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { planConversation } from "../../../engine/backends/answer-plan.ts";
import { familyFormat } from "../../../engine/backends/conversation-rendering.ts";
import { ChatTemplate } from "../../../engine/conversation/chat-template.ts";
import { ControlTokens } from "../../../engine/conversation/prompt-pieces.ts";
import { loadProfile } from "../../../engine/profiles/profile.ts";
import { ReasoningEffort, ReasoningMode } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, reasoning, result, system, text, tool, user } from "../../support/engine/canonical.ts";
import { recordedRequests } from "../../support/requests/recorded-requests.ts";
import { generatedConversation } from "../../support/templates/generated-conversations.ts";

/*
 * Prompts of the families whose prompts are written by code. `test/engines/renderers.test.ts` compares them with vLLM's
 * encoders; these are facts of that comparison.
 */

type Mode = { readonly mode: ReasoningMode; readonly effort: ReasoningEffort };

const OFF: Mode = { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED };
const on = (effort: ReasoningEffort = ReasoningEffort.UNSPECIFIED): Mode => ({ mode: ReasoningMode.ENABLED, effort });
const MODES = [OFF, on(), on(ReasoningEffort.LOW), on(ReasoningEffort.HIGH)];

function familyOf(name: string) {
  const profile = loadProfile(name);
  const { reasoning: reasons, toolCall, text: around } = profile;
  const template = new ChatTemplate({
    ...{ source: "", bosToken: "", eosToken: "", controlTokens: new ControlTokens([]) },
    ...familyFormat(profile, { reasoning: reasons, toolCall, text: around }),
  });
  return (messages: readonly Message[], tools: readonly Tool[] = [], mode = OFF) => {
    const request = { messages: [...messages], tools: [...tools], reasoning: { ...mode } };
    const { conversation } = planConversation(request, profile.thinking);
    return template.render(conversation);
  };
}

const answer = (content: string, id: string, name = "look"): Message => ({
  role: Role.TOOL,
  parts: [result(content, name, id)],
});
const textOf = (spans: ReturnType<ReturnType<typeof familyOf>>) => spans.map((span) => span.text).join("");

/** Digests of all prompts of recorded requests and of 60 generated conversations, by the mode of reasoning. */
const DIGESTS: Readonly<Record<string, readonly string[]>> = {
  "deepseek-v3.2": ["af4758d7ed33aa36", "bcef1b799e6a94ca", "bcef1b799e6a94ca", "bcef1b799e6a94ca"],
  "deepseek-v4": ["d79cc4712487f6b3", "76cb4c322fd142d9", "a73ff847be611b44", "76cb4c322fd142d9"],
  "deepseek-v4.1": ["2aec13a9b029f8f8", "1fa731851a6783d2", "21746256132aaf2f", "1fa731851a6783d2"],
  "kimi-k3": ["0463875567448919", "c7af75b41a2286b1", "96fc7ce451a8a58b", "c7af75b41a2286b1"],
};

describe.each(Object.entries(DIGESTS))("the prompts of %s", (name, digests) => {
  test("prompts are those that were compared with the family's own code", () => {
    const promptOf = familyOf(name);
    const said = [
      ...recordedRequests().map(({ request }) => request),
      ...Array.from({ length: 60 }, (_, seed) => generatedConversation(seed)),
    ];
    const found = MODES.map((mode) => {
      const hash = createHash("sha256");
      for (const { messages, tools } of said) hash.update(textOf(promptOf(messages, tools, mode))).update("\0");
      return hash.digest("hex").slice(0, 16);
    });
    expect(found).toEqual(digests);
  });

  test("prompts grow at their end where a run of tools goes on", () => {
    const promptOf = familyOf(name);
    const run = [user("Look."), assistant(reasoning("Hm."), call("look", "{}", "c1"))];
    const further = [...run, answer("it", "c1"), assistant(reasoning("Well."), call("look", "{}", "c2"))];
    const tools = [tool("look", "Looks.")];
    const shorter = textOf(promptOf([...run, answer("it", "c1")], tools, on()));
    const longer = textOf(promptOf([...further, answer("more", "c2")], tools, on()));
    expect(longer.startsWith(shorter)).toBe(true);
  });

  test("prompts end with the text that the answer goes on with", () => {
    const prompt = familyOf(name)([user("Go on."), assistant(text("Once upon"))]);
    expect(prompt.at(-1)).toMatchObject({ text: "Once upon", origin: "caller" });
  });

  test("prompts keep numbers and texts of arguments as the model wrote them", () => {
    const args = '{"a": 1e5, "b": 1.50, "c": "\\u00e9", "d": [1.50, "\\u00e9"], "e": null}';
    const prompt = textOf(familyOf(name)([user("Look."), assistant(call("look", args, "c1")), answer("it", "c1")]));
    for (const kept of [/1e5/, /1\.50[^\d]/, />é<|\|>é</, /\[1\.50, "é"\]/, /null/]) expect(prompt).toMatch(kept);
  });
});

describe("results of calls", () => {
  const calls = assistant(call("look", '{"at":1}', "c1"), call("seek", '{"at":2}', "c2"));
  const reversed = [user("Look."), calls, answer("second", "c2", "seek"), answer("first", "c1")];

  test.each(["deepseek-v4", "deepseek-v4.1"])(
    "results of calls stand in the order of the calls in one turn of the user: %s",
    (name) => {
      const prompt = textOf(familyOf(name)([...reversed, user("And?")]));
      expect(prompt).toContain(
        "<｜User｜><tool_result>first</tool_result>\n\n<tool_result>second</tool_result>\n\nAnd?<｜Assistant｜></think>",
      );
    },
  );

  test("results of calls stand in the order of the calls, with names and numbers: kimi-k3", () => {
    expect(textOf(familyOf("kimi-k3")(reversed))).toContain(
      '<|open|>message role="tool" tool="look" index="1"<|sep|>first<|close|>message<|sep|><|end_of_msg|><|open|>message role="tool" tool="seek" index="2"<|sep|>second',
    );
  });

  test("results of calls close their group behind the last one: deepseek-v3.2", () => {
    const promptOf = familyOf("deepseek-v3.2");
    const group = "\n\n<function_results>\n<result>second</result>\n<result>first</result>\n</function_results>";
    expect(textOf(promptOf(reversed, [], on()))).toMatch(new RegExp(`${group}\n\n<think>$`));
    expect(textOf(promptOf(reversed.slice(0, -1), [], on()))).not.toContain("</function_results>");
  });

  test("results of calls without a call are refused: deepseek-v3.2", () => {
    expect(() => familyOf("deepseek-v3.2")([user("Look."), answer("it", "c1")])).toThrow("no call before it");
  });
});

test("earlier reasoning goes where a user speaks, but not beside tools: deepseek-v4", () => {
  const said = [user("One."), assistant(reasoning("Hm."), text("1")), user("Two.")];
  const promptOf = familyOf("deepseek-v4");
  expect(textOf(promptOf(said, [], on(ReasoningEffort.LOW)))).toBe(
    textOf(promptOf([...said.slice(0, 1), assistant(text("1")), ...said.slice(2)], [], on(ReasoningEffort.LOW))),
  );
  expect(textOf(promptOf(said, [tool("look", "Looks.")], on()))).toContain("<think>Hm.</think>1");
});

test("a later system message has its mark, and begins a turn of the model: deepseek-v4.1", () => {
  const prompt = textOf(familyOf("deepseek-v4.1")([system("A"), user("B"), assistant(text("C")), system("D")]));
  expect(prompt).toBe(
    "<｜begin▁of▁sentence｜><｜System｜>A<｜User｜>B<｜Assistant｜></think>C<｜end▁of▁sentence｜><｜System｜>D<｜Assistant｜></think>",
  );
});

test("names in attributes are escaped, also where a caller spells a control token in them: kimi-k3", () => {
  const profile = loadProfile("kimi-k3");
  const template = new ChatTemplate({
    ...{ source: "", bosToken: "", eosToken: "" },
    controlTokens: new ControlTokens([{ text: "<|sep|>", stripsLeft: false }]),
    ...familyFormat(profile, {}),
  });
  const messages = [user("Look."), assistant(call("look", '{"a\\"&<|sep|>": true}', "c1")), answer("it", "c1")];
  const spans = template.render({ messages, tools: [], reasoning: false });
  expect(spans).toContainEqual(expect.objectContaining({ text: "a&quot;&amp;<|sep|>", origin: "caller" }));
});
