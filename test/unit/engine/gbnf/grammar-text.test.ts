import { expect, test } from "vitest";
import {
  charsOf,
  type GrammarReader,
  literal,
  markup,
  optional,
  repeat,
  sequence,
} from "../../../../engine/gbnf/gbnf.ts";
import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { anyString } from "../../../../engine/gbnf/json-value.ts";
import { finishGrammar } from "../../../../engine/grammar/output/constraint-grammar.ts";
import { toGrammar } from "../../../../engine/grammar/values/json-schema.ts";

const TOKENS = { "<call>": 7, "</call>": 8 };

const rootOf = (
  reader: GrammarReader | undefined,
  build: (rules: GrammarRules) => Parameters<typeof finishGrammar>[0],
) => {
  const rules = new GrammarRules(undefined, reader);
  return finishGrammar(build(rules), rules, "");
};

test.each<[string, GrammarReader | undefined, string]>([
  ["no reader of tokens", undefined, '"<call>\\n" "<call>" "</call>"?'],
  ["xgrammar", { name: "xgrammar", tokens: TOKENS }, 'Token(7) "\\n" "<call>" Token(8)?'],
  ["llama.cpp", { name: "llama.cpp", tokens: TOKENS }, '<[7]> "\\n" "<call>" <[8]>?'],
])("marks of the template are tokens for %s, and the same text of a caller is not", (_name, reader, root) => {
  const build = () => sequence(markup("<call>\n"), literal("<call>"), optional(markup("</call>")));
  expect(rootOf(reader, build)).toBe(`root ::= ${root}\n`);
});

test("xgrammar reads a string as characters, and no rule for each", () => {
  expect(rootOf(undefined, anyString)).toContain("char*");
  const text = rootOf({ name: "xgrammar" }, anyString);
  expect(text).toMatch(/string ::= "\\"" \(\[ -!/);
  expect(text).not.toContain("char*");
});

test("xgrammar counts a repeated character, and is given no state for each", () => {
  const hostname = (reader?: GrammarReader) =>
    rootOf(reader, (rules) => toGrammar({ type: "string", format: "hostname" }, rules).root);
  expect(hostname({ name: "xgrammar" })).toMatch(/r\d+\{0,30\}/);
  expect(hostname({ name: "xgrammar" }).length).toBeLessThan(hostname().length / 5);
  expect(rootOf({ name: "xgrammar" }, (rules) => rules.times(charsOf("az"), 0, 20))).toContain("{0,20}");
  expect(rootOf(undefined, () => repeat(charsOf("az"), 0, 20))).toBe("root ::= [a-z]{0,20}\n");
});
