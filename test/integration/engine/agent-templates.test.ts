import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ChatTemplate } from "../../../engine/conversation/chat-template.ts";
import { ControlTokens } from "../../../engine/conversation/prompt-pieces.ts";
import { builtInProfiles, type ModelProfile, textCallsOf } from "../../../engine/profiles/profile.ts";
import { chat } from "../../../gateway/formats/chat/request.ts";
import type { CanonicalRequest, Format } from "../../../gateway/formats/format.ts";
import { messages } from "../../../gateway/formats/messages/request.ts";
import { responses } from "../../../gateway/formats/responses/request.ts";
import { FAMILY_TEMPLATES } from "../../support/engine/family-templates.ts";
import { CONTEXT } from "../../support/events/encoding-context.ts";
import { PROFILE_SHAPES } from "../../support/templates/profile-shapes.ts";

/*
 * Real agents' requests, as the gateway forwards them, are rendered by templates with the checks of every family.
 */

const FOLDER = join(import.meta.dirname, "../../agent-requests");
const FORMATS: Readonly<Record<string, Format>> = {
  "/v1/chat/completions": chat,
  "/v1/messages": messages,
  "/v1/responses": responses,
};

type Recorded = { readonly name: string; readonly request: CanonicalRequest };

const context = {
  ...CONTEXT,
  settings: { ...CONTEXT.settings, unsupportedTools: "skip" as const, unreadableContent: "placeholder" as const },
  acceptsImages: () => false,
};

/** The recorded request of a file in canonical form; empty for requests that are refused. */
function recordedIn(file: string): readonly Recorded[] {
  const { path, body, expect: expected } = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
  const format = FORMATS[path.split("?")[0]];
  const isRefused = expected.status !== 200 && !file.startsWith("codex-");
  if (!format || isRefused) return [];
  // Some name a model of a vendor, for which a gateway has an alias.
  const { request } = format.prepare({ ...body, model: "svc-qwen" }, context);
  return [{ name: file.replace(".json", ""), request }];
}

const RECORDED = readdirSync(FOLDER).flatMap(recordedIn);

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

/** The request of Claude Code behind a search for tools, and the one before it, which has neither search nor tools. */
const { body: searched } = JSON.parse(readFileSync(join(FOLDER, "claude-332-3-tool-search-loaded.json"), "utf8"));
const LOADED: readonly string[] = ["WebFetch", "NotebookEdit"];
const asked = {
  ...searched,
  messages: searched.messages.slice(0, -2),
  tools: searched.tools.filter(({ name }: { readonly name: string }) => !LOADED.includes(name)),
};
const [before, after] = [asked, searched].map((body) => messages.prepare(body, context).request);

/** Templates of Mistral write the tools before the last message of the user, so that each of them moves the tools. */
const MOVING: ReadonlySet<string> = new Set(["magistral", "mistral", "mistral-args"]);
const SOURCES = builtInProfiles().flatMap(({ name, profile }) => [
  { name, profile, source: FAMILY_TEMPLATES[name] ?? "" },
  ...(name in PROFILE_SHAPES && !MOVING.has(name) ? [{ name, profile, source: PROFILE_SHAPES[name] ?? "" }] : []),
]);

test.each(SOURCES)(
  "a search for tools changes nothing of the prompt by the template of $name",
  ({ source, profile }) => {
    if (!before || !after) throw new Error("no request");
    const template = templateOf(source, profile);
    const [head, prompt] = [before, after].map((request) => promptOf(template, request));
    expect(commonLength(head ?? "", prompt ?? "") / (head?.length ?? 0)).toBeGreaterThan(0.99);
    for (const name of LOADED) expect(prompt?.replaceAll("\\", "").split(`"name": "${name}", "desc`)).toHaveLength(2);
  },
);

function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return length;
}

describe.each(builtInProfiles())("a template like that of $name", ({ name, profile }) => {
  const template = templateOf(FAMILY_TEMPLATES[name] ?? "", profile);

  test.each(RECORDED)("renders $name", ({ request }) => {
    const prompt = promptOf(template, request);
    for (const { parts } of request.messages)
      for (const { kind } of parts) if (kind?.$case === "text") expect(prompt).toContain(kind.value.text.trim());
  });
});
