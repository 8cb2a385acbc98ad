import type { Token } from "node-llama-cpp";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type LlamaRuntime, loadRuntime } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import { outputGrammar } from "../../engine/grammar/output/output-grammar.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { argumentTypes } from "../../engine/tool-calls/argument-types.ts";
import { missing, never, OPTIONS } from "../support/engine/demo-engine.ts";
import { callText } from "../unit/engine/grammar/grammar-texts.ts";
import { FAMILIES, markersOf, optionsOf } from "../unit/engine/output-parser/families.ts";
import { type ParseOptions, parsePieces } from "../unit/engine/output-parser/parse-output.ts";

const TOOLS = [
  {
    name: "set_level",
    parametersJsonSchema: JSON.stringify({
      type: "object",
      properties: {
        mode: { type: "string", enum: ["soft", "hard"] },
        level: { type: "integer", minimum: 1, maximum: 5 },
        sure: { type: "boolean" },
        at: { type: "array", items: { enum: ["a", 1, null] }, maxItems: 3 },
      },
      required: ["mode", "level"],
    }),
    strict: true,
  },
  { name: "stop", parametersJsonSchema: "", strict: true },
];
const MAX_TOKENS = 1_000;

describe.skipIf(missing !== "")("under the grammar of a family", () => {
  let runtime: LlamaRuntime;
  beforeAll(async () => {
    runtime = await loadRuntime({ ...OPTIONS, slots: 1 }, never());
  });
  afterAll(() => runtime.close());

  /**
   * Returns the model's text under the grammar, independent of its weights; `begun` is forced first, token by token.
   */
  async function write(grammarText: string, seed: number, begun: readonly Token[] = []): Promise<string> {
    const { model, llama, library, sequences } = runtime;
    const [sequence] = sequences;
    if (!sequence) throw new Error("no sequence");
    const grammar = await llama.createGrammar({ grammar: grammarText });
    const grammarEvaluationState = new library.LlamaGrammarEvaluationState({ model, grammar });
    const written: Token[] = [];
    await sequence.clearHistory();
    const prompt = model.tokenize("<|im_start|>assistant\n", true);
    const tokenBias = () => {
      const bias = library.TokenBias.for(model);
      const forced = begun[written.length];
      return forced === undefined ? bias : bias.set(forced, { logit: 1000 });
    };
    const options = { temperature: 1.2, topK: 0, topP: 1, minP: 0, seed, grammarEvaluationState, tokenBias };
    for await (const token of sequence.evaluate(prompt, options)) {
      written.push(token);
      if (written.length === MAX_TOKENS) break;
    }
    return model.detokenize(written, true);
  }

  function check(text: string, options: ParseOptions): void {
    const { blocks } = parsePieces([text], options);
    const calls = blocks.filter(({ kind }) => kind === "call");
    expect(calls.length, text).toBeGreaterThan(0);
    for (const { name, text: json, complete } of calls) {
      expect(complete, text).toBe(true);
      const { mode, level, sure = true, at = [], ...rest } = JSON.parse(json);
      expect(rest).toEqual({});
      if (name === "stop") continue;
      expect(["soft", "hard"]).toContain(mode);
      expect([1, 2, 3, 4, 5]).toContain(level);
      expect(sure).toBeTypeOf("boolean");
      for (const item of at) expect(["a", 1, null]).toContain(item);
    }
  }

  const types = argumentTypes(TOOLS);
  const readAs = (profile: string) => ({
    ...optionsOf(profile),
    argumentTypes: types,
    toolNames: TOOLS.map(({ name }) => name),
  });

  test.each(FAMILIES.map(({ profile }) => profile))(
    "calls of %s are parsed with arguments of the schema",
    async (profile) => {
      const { toolCall: markers } = loadProfile(profile);
      if (!markers) throw new Error("the profile has no calls");
      const grammar = callText({ markers, tools: TOOLS, argumentTypes: types, maxCalls: 3 });
      for (const seed of [1, 2]) {
        const text = await write(grammar, seed);
        check(text, readAs(profile));
        expect(parsePieces([text], readAs(profile)).blocks.filter(({ kind }) => kind !== "call")).toEqual([]);
      }
    },
  );

  test.each(FAMILIES)(
    "an optional call of $profile follows the schema, however many tokens its marks have",
    async ({ profile, write: written, onlyAtStart = false }) => {
      const tools = TOOLS;
      const markers = markersOf(profile);
      const options = { mustCall: false, constraint: undefined, maxCalls: 3, argumentTypes: types } as const;
      const grammar = outputGrammar({ ...options, tools, markers, reasoning: "none" }).text ?? "";
      // The first call up to its tool's name, as ordinary tokens; for bare JSON they cross the position where it
      // begins.
      const call = written([{ name: "set_level", args: {} }]);
      const opening = call.slice(0, onlyAtStart ? 3 : call.indexOf("set_level"));
      const before = onlyAtStart ? "\n" : "A <b> or [c] first: ";
      check(await write(grammar, 1, runtime.model.tokenize(before + opening, false)), readAs(profile));
    },
  );
});
