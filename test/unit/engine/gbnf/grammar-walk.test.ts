import { describe, expect, test } from "vitest";
import { type Gbnf, literal, NEVER, sequence } from "../../../../engine/gbnf/gbnf.ts";
import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { grammarBehind } from "../../../../engine/gbnf/grammar-walk.ts";
import { freeText, textUntil, textWithout } from "../../../../engine/grammar/expressions/text-grammar.ts";
import { finishGrammar } from "../../../../engine/grammar/output/constraint-grammar.ts";
import { toolCallGrammar } from "../../../../engine/grammar/output/tool-call-grammar.ts";
import { toGrammar } from "../../../../engine/grammar/values/json-schema.ts";
import { HERMES_MARKERS } from "../../../support/engine/hermes-markers.ts";
import { matcherOf } from "../grammar/gbnf-matcher.ts";

const SCHEMA = {
  type: "object",
  properties: { q: { type: "string", pattern: "^a{2,3}b*$" }, tags: { type: "array", items: {}, maxItems: 2 } },
  required: ["q"],
};
const TOOLS = [{ name: "run", parametersJsonSchema: JSON.stringify(SCHEMA), strict: true }];
const VALUE = '{"q": "aaabb", "tags": [{"x": 1.5e3}, "😀\\n"]}';
const call = (name: string, args = VALUE) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
const callsOf = (rules: GrammarRules) =>
  toolCallGrammar({ markers: HERMES_MARKERS.toolCall, tools: TOOLS, maxCalls: 2 }, rules);
const WRONG_VALUES = ['{"q": "ab', '{"q": "aaaa', '{"q": "aa", "tags": [1, 2, '];
const FREE_TEXT = `Well, <b> and <tool_cal, 😀.\n${call("run")}\n${call("run")}`;
const WRONG_FREE_TEXT = [`Well ${call("rm")}`, `Well ${call("run", "{}")}`, `${call("run")}x`];

type Row = readonly [name: string, (rules: GrammarRules) => Gbnf, text: string, impossible: readonly string[]];
const ROWS: readonly Row[] = [
  ["a JSON Schema", (rules) => toGrammar(SCHEMA, rules).root, VALUE, WRONG_VALUES],
  ["a mandatory call", (rules) => callsOf(rules).root, call("run"), ["So ", call("rm"), call("run", "{}")]],
  ["free text for llama.cpp", (rules) => textUntil(rules, callsOf(rules).openers, true), FREE_TEXT, WRONG_FREE_TEXT],
  [
    "text without a mark for xgrammar",
    (rules) => sequence(textWithout(rules, "</a></b>"), literal("</a></b>")),
    "x</a></a></b>",
    ["x</a></b>x", "</a></b></a>"],
  ],
  ["free text for xgrammar", (rules) => freeText(rules, callsOf(rules).openers, true), FREE_TEXT, WRONG_FREE_TEXT],
];
const readerOf = (name: string) => ({ name: name.endsWith("xgrammar") ? "xgrammar" : "llama.cpp" }) as const;
const END = "\u{10fffd}";

describe.each(ROWS)("the grammar behind a text of %s", (name, rootOf, text, impossible) => {
  test("a grammar matches the rest of a text, at every cut", () => {
    const chars = [...text];
    for (let at = 0; at <= chars.length; at += 1) {
      const rules = new GrammarRules(undefined, readerOf(name));
      const [head, tail] = [chars.slice(0, at).join(""), chars.slice(at).join("")];
      const rest = grammarBehind(sequence(rootOf(rules), literal(END)), rules, head) ?? NEVER;
      expect(grammarBehind(rest, rules, tail + END), head).toBeDefined();
      if (name.endsWith("xgrammar")) continue; // its form is not one that the matcher reads
      const matches = matcherOf(finishGrammar(rest, rules, ""));
      expect([matches(tail + END), matches(`${tail}}`)], head).toEqual([true, false]);
    }
  });

  test.each(impossible)("no grammar is left behind %j, which the language does not begin with", (head) => {
    const rules = new GrammarRules(undefined, readerOf(name));
    expect(grammarBehind(rootOf(rules), rules, head)).toBeUndefined();
  });
});
