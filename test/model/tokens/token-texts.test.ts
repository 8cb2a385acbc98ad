import type { Token } from "node-llama-cpp";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type LlamaRuntime, loadRuntime } from "../../../engine/backends/llama/runtime/llama-runtime.ts";
import { TokenTexts, Utf8Holder } from "../../../engine/backends/llama/tokens/vocabulary.ts";
import { missing, never, OPTIONS, RANDOM_MODEL } from "../../support/engine/demo-engine.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

describe.skipIf(missing !== "")("the text of tokens", () => {
  let runtime: LlamaRuntime;
  let all: readonly Token[];

  beforeAll(async () => {
    runtime = await loadRuntime({ ...OPTIONS, modelPath: RANDOM_MODEL, slots: 1 }, never());
    all = [...runtime.model.iterateAllTokens()];
  });
  afterAll(() => runtime.close());

  /** Returns the text of tokens decoded one by one after others. */
  const written = (texts: TokenTexts, tokens: readonly Token[], before: readonly Token[]) => {
    const holder = new Utf8Holder<Token>((ids, behind) => texts.of(ids, behind), before);
    return tokens.map((token) => holder.push(token)).join("") + holder.flush();
  };

  test("equals the library's text of all tokens at once, whatever precedes them", () => {
    const texts = new TokenTexts(runtime.model, new Set());
    const random = new SeededRandom(7);
    const some = (count: number) => Array.from({ length: count }, () => all[random.below(all.length)] as Token);
    for (let round = 0; round < 300; round += 1) {
      const [before, tokens] = [some(6), runtime.model.tokenize(runtime.model.detokenize(some(30)))];
      expect(written(texts, tokens, before)).toBe(runtime.model.detokenize(tokens));
    }
  });

  test("is requested once per token, and each time if the library cleans up spaces", () => {
    const { model } = runtime;
    let asked = 0;
    const counted = (tidies: boolean) => {
      asked = 0;
      return new TokenTexts(
        {
          vocabularyType: model.vocabularyType,
          tokenize: (text: string) => model.tokenize(text),
          detokenize: (tokens: readonly Token[], special?: boolean, before?: readonly Token[]) => {
            asked += 1;
            const text = model.detokenize(tokens, special, before);
            return tidies ? text.replaceAll(" .", ".") : text;
          },
        },
        new Set(),
      );
    };
    const tokens = model.tokenize("again and again and again and again");
    for (const [tidies, times] of [[false, new Set(tokens).size] as const, [true, tokens.length] as const]) {
      const texts = counted(tidies);
      asked = 0;
      expect(written(texts, tokens, [])).toBe("again and again and again and again");
      expect(asked).toBe(times);
    }
  });

  test("of a mark is its spelling, and of other control tokens nothing", () => {
    const { model } = runtime;
    const mark = model.tokenize("<|im_start|>", true)[0] as Token;
    expect(new TokenTexts(model, new Set([mark])).of([mark], [])).toBe("<|im_start|>");
    expect(new TokenTexts(model, new Set()).of([mark], [])).toBe("");
  });
});
