import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ChatTemplate } from "../../../engine/conversation/chat-template.ts";
import { ControlTokens } from "../../../engine/conversation/prompt-pieces.ts";
import { builtInProfiles } from "../../../engine/profiles/profile.ts";
import { chat } from "../../../gateway/formats/chat/request.ts";
import type { CanonicalRequest, Format } from "../../../gateway/formats/format.ts";
import { messages } from "../../../gateway/formats/messages/request.ts";
import { responses } from "../../../gateway/formats/responses/request.ts";
import { FAMILY_TEMPLATES } from "../../support/engine/family-templates.ts";
import { CONTEXT } from "../../support/events/encoding-context.ts";

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
  return [{ name: file.replace(".json", ""), request: format.prepare(body, context).request }];
}

const RECORDED = readdirSync(FOLDER).flatMap(recordedIn);

test("all requests of Codex are among them", () => {
  expect(RECORDED.filter(({ name }) => name.startsWith("codex-"))).toHaveLength(7);
});

describe.each(builtInProfiles())("a template like that of $name", ({ name, profile }) => {
  const { callIds, historyArguments, historyReasoning } = profile;
  const tokens = { bosToken: "", eosToken: "", controlTokens: new ControlTokens([]) };
  const options = { ...tokens, callIds, historyArguments, historyReasoning };
  const template = new ChatTemplate({ source: FAMILY_TEMPLATES[name] ?? "", ...options });

  test.each(RECORDED)("renders $name", ({ request }) => {
    const spans = template.render({ messages: request.messages, tools: request.tools, reasoning: false });
    const prompt = spans.map(({ text }) => text).join("");
    for (const { parts } of request.messages)
      for (const { kind } of parts) if (kind?.$case === "text") expect(prompt).toContain(kind.value.text.trim());
  });
});
