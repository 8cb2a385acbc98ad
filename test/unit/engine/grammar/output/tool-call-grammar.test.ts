import { describe, expect, test } from "vitest";
import { GrammarRules } from "../../../../../engine/gbnf/grammar-rules.ts";
import {
  type ToolCallGrammarOptions,
  toolCallGrammar,
} from "../../../../../engine/grammar/output/tool-call-grammar.ts";
import type { Tool } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { HERMES_MARKERS } from "../../../../support/engine/hermes-markers.ts";
import { parsePieces } from "../../output-parser/parse-output.ts";
import { matcherOf } from "../gbnf-matcher.ts";
import { callText } from "../grammar-texts.ts";

const tool = (name: string, parametersJsonSchema: string, strict = false): Tool => ({
  name,
  description: "",
  parametersJsonSchema,
  strict,
  cacheBreakpoint: undefined,
});
const SEARCH = tool("search", '{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}');
const RUN = tool("run", "");
const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;

function matcher(options: Partial<ToolCallGrammarOptions> = {}) {
  return matcherOf(callText({ markers: HERMES_MARKERS.toolCall, tools: [SEARCH, RUN], ...options }));
}

describe("toolCallGrammar", () => {
  test("matches one call with arguments by the tool's own schema", () => {
    const matches = matcher();
    expect([call("search", '{"q": "x"}'), call("run", "{}")].map(matches)).toEqual([true, true]);
    const wrong = [
      call("search", "{}"),
      call("run", '{"q": "x"}'),
      call("rm", "{}"),
      `${call("run", "{}")}\n`,
      `Sure. ${call("run", "{}")}`,
      `${call("run", "{}")}\n${call("run", "{}")}`,
      "",
    ];
    expect(wrong.filter(matches)).toEqual([]);
  });

  test("matches several calls as the template joins them, up to the limit", () => {
    const matches = matcher({ maxCalls: 3 });
    const calls = (count: number) => Array.from({ length: count }, () => call("run", "{}"));
    expect([1, 2, 3, 4].map((count) => matches(calls(count).join("\n")))).toEqual([true, true, true, false]);
    expect(matches(calls(2).join(""))).toBe(false);
  });

  test("the output parser reads what it matches", () => {
    const text = `${call("search", '{"q":"x"}')}\n${call("run", "{}")}`;
    expect(matcher({ maxCalls: 2 })(text)).toBe(true);
    expect(parsePieces([text]).blocks.map((block) => [block.name, block.text])).toEqual([
      ["search", '{"q":"x"}'],
      ["run", "{}"],
    ]);
  });

  test("treats quotes in a name as text", () => {
    const matches = matcher({ tools: [tool('a"b', "{}")] });
    expect(matches(call('a\\"b', '{"any": [1]}'))).toBe(true);
  });

  test("refuses a schema that allows no object", () => {
    const build = () => matcher({ tools: [SEARCH, tool("x", '{"type":"string"}')] });
    expect(build).toThrow("Invalid JSON Schema at tools.1.parameters_json_schema#: no value can satisfy it.");
  });

  test("refuses unenforced keywords for strict tools only", () => {
    const schema = '{"type":"object","properties":{"n":{"type":"integer","multipleOf":1013}}}';
    const loose = toolCallGrammar({ markers: HERMES_MARKERS.toolCall, tools: [tool("x", schema)] }, new GrammarRules());
    expect(loose.unenforced).toEqual(["tools.0.parameters_json_schema#/properties/n/multipleOf"]);
    expect(() => matcher({ tools: [tool("x", schema, true)] })).toThrow("#/properties/n/multipleOf");
  });
});
