import { describe, expect, test } from "vitest";
import { ChatTemplate } from "../../../engine/conversation/chat-template.ts";
import { ControlTokens } from "../../../engine/conversation/prompt-pieces.ts";
import { builtInProfiles, type ModelProfile, textCallsOf } from "../../../engine/profiles/profile.ts";
import type { CanonicalRequest, Format } from "../../../gateway/formats/format.ts";
import { messages } from "../../../gateway/formats/messages/request.ts";
import { responses } from "../../../gateway/formats/responses/request.ts";
import { FAMILY_TEMPLATES } from "../../support/engine/family-templates.ts";
import { RECORDED_CONTEXT, recordedBody, recordedRequests } from "../../support/requests/recorded-requests.ts";
import { PROFILE_SHAPES } from "../../support/templates/profile-shapes.ts";

/*
 * Real agents' requests, as the gateway forwards them, are rendered by templates with the checks of every family.
 */

const RECORDED = recordedRequests();

test("all requests of Codex are among them", () => {
  expect(RECORDED.filter(({ name }) => name.startsWith("codex-"))).toHaveLength(13);
});

function templateOf(source: string, profile: ModelProfile): ChatTemplate {
  const { callIds, historyArguments, historyReasoning } = profile;
  const tokens = { bosToken: "", eosToken: "", controlTokens: new ControlTokens([]) };
  return new ChatTemplate({
    source,
    ...tokens,
    callIds,
    historyArguments,
    historyReasoning,
    textCalls: textCallsOf(profile),
  });
}

function promptOf(template: ChatTemplate, { messages, tools }: Pick<CanonicalRequest, "messages" | "tools">): string {
  const spans = template.render({ messages, tools, reasoning: false });
  return spans.map(({ text }) => text).join("");
}

type Body = Readonly<Record<string, unknown>>;
/** Recorded, or made of a recorded one: requests of one conversation, of which all but the first come behind new tools. */
type Loading = { readonly format: Format; readonly loads: readonly string[]; readonly bodies: readonly Body[] };

function claudeSearch(): Loading {
  const body = recordedBody("claude-332-3-tool-search-loaded");
  const loads = ["WebFetch", "NotebookEdit"];
  const tools = body.tools.filter(({ name }: { readonly name: string }) => !loads.includes(name));
  return { format: messages, loads, bodies: [{ ...body, messages: body.messages.slice(0, -2), tools }, body] };
}

function codexSearch(): Loading {
  const body = recordedBody("codex-171-11-tool-search-loaded");
  const at = body.input.findIndex(({ type }: { readonly type: string }) => type === "tool_search_output");
  const inputs = [body.input.slice(0, at - 2), body.input.slice(0, at + 1), body.input];
  return { format: responses, loads: ["mcp__probe__lookup"], bodies: inputs.map((input) => ({ ...body, input })) };
}

function codexAddition(): Loading {
  const body = recordedBody("codex-171-9-gpt-5.6-additional-tools");
  const parameters = { type: "object", properties: { url: { type: "string" } }, required: ["url"] };
  const tools = [
    { type: "function", name: "fetch_page", description: "Gets a page.", parameters },
    { type: "namespace", name: "late", tools: [{ type: "custom", name: "note", description: "Takes a note." }] },
  ];
  const more = [
    { role: "assistant", content: "Ready." },
    { type: "additional_tools", role: "developer", tools },
    { role: "user", content: "Go on." },
  ];
  const input = [...body.input, ...more];
  return { format: responses, loads: ["fetch_page", "late__note"], bodies: [body, { ...body, input }] };
}

const LOADINGS = {
  "a search of Claude Code": claudeSearch(),
  "a search of Codex": codexSearch(),
  "an addition": codexAddition(),
};

/** Templates of Mistral write the tools before the last message of the user, so that each of them moves the tools. */
const MOVING: ReadonlySet<string> = new Set(["magistral", "mistral", "mistral-args"]);
const SOURCES = builtInProfiles().flatMap(({ name, profile }) => [
  { name, profile, source: FAMILY_TEMPLATES[name] ?? "" },
  ...(name in PROFILE_SHAPES && !MOVING.has(name) ? [{ name, profile, source: PROFILE_SHAPES[name] ?? "" }] : []),
]);

describe.each(Object.entries(LOADINGS))("%s", (_, { format, loads, bodies }) => {
  const requests = bodies.map((body) => format.prepare({ ...body, model: "svc-qwen" }, RECORDED_CONTEXT).request);

  test.each(SOURCES)("changes nothing of the prompt by the template of $name", ({ source, profile }) => {
    const template = templateOf(source, profile);
    const prompts = requests.map((request) => promptOf(template, request));
    for (const [at, prompt] of prompts.slice(1).entries()) {
      const before = prompts[at] ?? "";
      expect(commonLength(before, prompt) / before.length).toBeGreaterThan(0.99);
      for (const name of loads) expect(prompt.replaceAll("\\", "").split(`"name": "${name}", "desc`)).toHaveLength(2);
    }
  });
});

function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return length;
}

describe.each(builtInProfiles())("a template like that of $name", ({ name, profile }) => {
  const template = templateOf(FAMILY_TEMPLATES[name] ?? "", profile);

  test.each(RECORDED)("a template like that of $name renders the conversation of an agent", ({ request }) => {
    const prompt = promptOf(template, request);
    for (const { parts } of request.messages)
      for (const { kind } of parts) if (kind?.$case === "text") expect(prompt).toContain(kind.value.text.trim());
  });
});
