import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readModelFiles } from "../../engine/backends/openai-compatible/prompt/model-files.ts";
import type { Span } from "../../engine/conversation/chat-template.ts";
import { ControlTokens, toPromptPieces } from "../../engine/conversation/prompt-pieces.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { ENGINES } from "./engines.ts";

/*
 * Whether the tokens of a prompt are those of its segments, in the tokenizer library of the engines: the demonstration
 * vocabulary, and small ones with each property of published tokenizers that could break it.
 */

const PROMPTS = 500;
const SCRIPT = join(import.meta.dirname, "small-tokenizers.py");
const program = ENGINES.find(({ dialect, installed }) => dialect === "vllm" && installed)?.command.program;
const exported = join(process.env.SVC_TEST_ENGINES ?? "", "demo/tokenizer.json");

const folder = mkdtempSync(join(tmpdir(), "svc-tokenizers-"));
afterAll(() => rmSync(folder, { recursive: true }));

const python = (args: readonly string[], input = "") =>
  execFileSync(program ?? "", [SCRIPT, ...args], { input, encoding: "utf8", maxBuffer: 1 << 28 });
const made = program === undefined ? [] : python(["make", folder]).trim().split("\n");
const TOKENIZERS: readonly { readonly name: string; readonly file: string }[] = [
  { name: "the demonstration vocabulary", file: exported },
  ...made.map((name) => ({ name, file: join(folder, name, "tokenizer.json") })),
];

const EDGES: readonly [string, ...string[]] = [
  "",
  " ",
  "\n",
  "\n\n",
  "\t",
  "a",
  " a",
  "a ",
  "é",
  "\u0301",
  "漢字",
  "🙂",
  "7",
  "don't",
  "…",
  "\u00a0",
];
const PARTS: readonly [string, ...string[]] = [
  ...EDGES,
  "the user ",
  "something, ",
  "    return 1.50\n",
  '{"path": "',
  "<|im",
  "|>",
  "</thin",
  "〈",
  "|",
];

/** Returns the spans of a conversation, as templates of the form of ChatML write them. */
function conversation(random: SeededRandom): readonly Span[] {
  const said = () => {
    const parts = Array.from({ length: random.below(30) }, () => random.pick(PARTS));
    return random.pick(EDGES) + parts.join("") + random.pick(EDGES);
  };
  const template = (text: string): Span => ({ text, origin: "template" });
  const caller = (): Span => ({ text: said(), origin: "caller" });
  const turns = Array.from({ length: 1 + random.below(8) }, (_, at): readonly Span[] =>
    at % 2 === 0
      ? [template("<|im_start|>user\n"), caller(), template("<|im_end|>\n")]
      : [
          ...[template("<|im_start|>assistant\n<think>\n"), caller(), template("\n</think>\n\n"), caller()],
          template("<|im_end|>\naaaa 〈|EOS|〉 bbbb\n"),
        ],
  );
  return [...turns.flat(), template("<|im_start|>assistant\n")];
}

/** Returns how many prompts have other tokens than their segments; `cutsAll` cuts before every control token. */
function differing(file: string, cutsAll = false): number {
  const tokens = readModelFiles(file)?.tokens ?? [];
  expect(tokens.length).toBeGreaterThan(3);
  const control = new ControlTokens(tokens.map(({ text, cuts }) => ({ text, stripsLeft: !cuts && !cutsAll })));
  const random = new SeededRandom(7);
  const prompts: (readonly string[])[] = [];
  while (prompts.length < PROMPTS) {
    const spans = conversation(random);
    // A caller's spelling is cut on purpose.
    if (spans.some(({ text, origin }) => origin === "caller" && control.occurrences(text).length > 0)) continue;
    const pieces = toPromptPieces(spans, control, { maxUnits: 200_000, cutsAtWords: false });
    prompts.push(pieces.map(({ text }) => text));
  }
  return JSON.parse(python(["compare", file], JSON.stringify(prompts))).length;
}

describe.skipIf(program === undefined)("a prompt", () => {
  test.each(TOKENIZERS)("has the tokens of its segments: $name", ({ file }) => expect(differing(file)).toBe(0));

  test.each(["lstrip", "single_word"])("would not have them if it were cut before tokens with %s", (name) =>
    expect(differing(join(folder, name, "tokenizer.json"), true)).toBeGreaterThan(50),
  );
});
