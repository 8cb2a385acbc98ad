import { describe, expect, test } from "vitest";
import { type OutputGrammarOptions, outputGrammar } from "../../../../engine/grammar/output/output-grammar.ts";
import { argumentTypes } from "../../../../engine/tool-calls/argument-types.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { sizeOf } from "../../../support/size.ts";
import { FAMILIES, markersOf } from "../output-parser/families.ts";
import { parsePieces } from "../output-parser/parse-output.ts";
import { matcherOf, writerOf } from "./gbnf-matcher.ts";

const SCHEMA = JSON.stringify({
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" }, tags: { type: "array" }, extra: {} },
});
const TOOLS = ["get_weather", "get", "run-it"].map((name) => ({ name, parametersJsonSchema: SCHEMA, strict: false }));
const TEXTS = sizeOf({ quick: 30, exhaustive: 500, promised: 5_000 });

describe.each(FAMILIES)("$profile, whose tools are not strict", ({ profile, write, onlyAtStart }) => {
  const markers = markersOf(profile);
  const grammarOf = (more: Partial<OutputGrammarOptions>) =>
    outputGrammar({
      ...{ markers, tools: TOOLS, mustCall: false, constraint: undefined, reasoning: "none", maxCalls: 3 },
      ...{ argumentTypes: argumentTypes(TOOLS), ...more },
    }).text ?? "";
  const call = (name: string) => write([{ name, args: { city: "Oslo" } }]);
  const parserOptions = { markers, argumentTypes: argumentTypes(TOOLS), toolNames: TOOLS.map(({ name }) => name) };

  test("a profile whose tools are not strict has a whole call of one of its tools behind every opening mark that its grammar allows", () => {
    const grammar = grammarOf({});
    const [writeText, matches] = [writerOf(grammar), matcherOf(grammar)];
    let calls = 0;
    for (let seed = 0; seed < TEXTS; seed += 1) {
      const text = writeText(new SeededRandom(seed), 40 + (seed % 400)) + (seed % 2 === 0 ? "" : call("get"));
      if (!matches(text)) continue; // the grammar has ended before the second call
      const { blocks } = parsePieces([text], parserOptions);
      for (const block of blocks.filter(({ kind }) => kind === "call")) {
        calls += 1;
        expect(block.complete, text).toBe(true);
        expect(parserOptions.toolNames, text).toContain(block.name);
        expect(JSON.parse(block.text), text).toBeTypeOf("object");
      }
    }
    expect(calls).toBeGreaterThan(TEXTS / 20);
  });

  test("a profile whose tools are not strict names no other tool, and breaks off in no call", () => {
    const matches = matcherOf(grammarOf({}));
    const good = call("get_weather");
    expect(matches(good)).toBe(true);
    expect(matches(call("rm"))).toBe(false);
    const marked = onlyAtStart ? good.length - 1 : good.length - (good.trimEnd().endsWith("}") ? 1 : 3);
    for (let at = Math.floor(good.length / 2); at <= marked; at += 1)
      expect(matches(good.slice(0, at)), good.slice(0, at)).toBe(false);
  });

  test("a profile whose tools are not strict writes the same grammar whatever its schemas are", () => {
    const others = TOOLS.map((tool) => ({ ...tool, parametersJsonSchema: "{}" }));
    expect(grammarOf({ tools: others, argumentTypes: argumentTypes(others) })).toBe(grammarOf({}));
  });

  if (!onlyAtStart)
    test("a profile whose tools are not strict begins no call where none is allowed, with or without other text", () => {
      const matches = matcherOf(grammarOf({ tools: [], mustNotCall: true }));
      expect(["Well.", "a < b, [x], {y} and ｜"].filter((text) => !matches(text))).toEqual([]);
      expect([call("get"), `Well. ${call("get")}`].filter(matches)).toEqual([]);
    });
});
