import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { PromptBounds } from "../../../../../engine/backends/llama/tokens/prompt-bounds.ts";
import { PromptRenderer } from "../../../../../engine/conversation/prompt-renderer.ts";
import { assistant, system, text, user } from "../../../../support/engine/canonical.ts";

const DEMO = readFileSync(new URL("../../../../../engine/demo-model/template.jinja", import.meta.url), "utf8").trim();
/** A tokenizer whose tokens are words and single other characters. */
const tokensOf = ({ text: prompt }: { readonly text: string }) => prompt.match(/\w+|\W/g)?.length ?? 0;

function bounds(
  source: string,
  { longestTokenBytes }: { longestTokenBytes: number | undefined } = SIXTEEN,
): PromptBounds {
  const renderer = new PromptRenderer({
    ...{ source, bosToken: "", eosToken: "", controlTokens: [], maxUnits: 8192, cutsAtWords: true },
    reasoningOpen: undefined,
  });
  return new PromptBounds({ renderer, tokensOf, longestTokenBytes });
}

const SIXTEEN = { longestTokenBytes: 16 };
const many = Array.from({ length: 1000 }, (_, at) => (at % 2 ? assistant(text("")) : user("")));

describe("a template that drops something does not bound it", () => {
  const cases: readonly [what: string, source: string][] = [
    ["all but the last messages", "{% for m in messages[-8:] %}<{{ m.role }}>{{ m.content }}{% endfor %}"],
    [
      "messages without text",
      "{% for m in messages %}{% if m.content %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}",
    ],
    ["the text around messages", "{% for m in messages %}{{ m.content }}{% endfor %}"],
    ["everything, as it rejects all conversations", "{{ raise_exception('no') }}"],
  ];
  test.each(cases)("a template that drops %s does not bound a prompt", (_what, source) => {
    expect(bounds(source).least({ messages: many })).toBe(0);
  });

  test("a template that truncates texts does not bound a prompt", () => {
    const source = "{% for m in messages %}<{{ m.role }}>{{ m.content[:100] }}{% endfor %}";
    expect(bounds(source).least({ messages: [user("x".repeat(16_000))] })).toBeLessThan(40);
  });

  test("system messages after the first", () => {
    const messages = [user("a"), system("x".repeat(16_000))];
    expect(bounds(DEMO).least({ messages })).toBeLessThan(40);
  });
});
