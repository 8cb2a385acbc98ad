import type { Token } from "node-llama-cpp";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { type LlamaRuntime, loadRuntime } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import { PromptBounds } from "../../engine/backends/llama/tokens/prompt-bounds.ts";
import { PORTION_UNITS, PromptEncoder } from "../../engine/backends/llama/tokens/prompt-encoder.ts";
import {
  readVocabulary,
  TokenTexts,
  Utf8Holder,
  type Vocabulary,
} from "../../engine/backends/llama/tokens/vocabulary.ts";
import { LoopSlices } from "../../engine/backends/loop-slices.ts";
import type { Ask } from "../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { VLLM } from "../../engine/backends/openai-compatible/engines/vllm.ts";
import { SpelledMarks } from "../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import { OwnPrompts } from "../../engine/backends/openai-compatible/prompt/own-prompts.ts";
import { ChatTemplate, type Conversation } from "../../engine/conversation/chat-template.ts";
import { ANY_ORDER } from "../../engine/conversation/history/model-history.ts";
import { PromptRenderer } from "../../engine/conversation/prompt-renderer.ts";
import { SegmentCache } from "../../engine/conversation/segment-cache.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { CountTokensRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { MARKS, PLACES } from "../support/dialects/injections.ts";
import { assistant, call, reasoning, system, text, tool, toolResult, user } from "../support/engine/canonical.ts";
import { missing, never, OPTIONS, RANDOM_MODEL } from "../support/engine/demo-engine.ts";
import { HERMES_MARKERS } from "../support/engine/hermes-markers.ts";
import { workHere } from "../support/engine/work-here.ts";
import { SeededRandom } from "../support/seeded-random.ts";

describe.skipIf(missing !== "")("a conversation in the model's own tokens", () => {
  let runtime: LlamaRuntime;
  let vocabulary: Vocabulary;
  let template: ChatTemplate;
  let encoder: PromptEncoder;
  let segments: SegmentCache;

  beforeAll(async () => {
    runtime = await loadRuntime({ ...OPTIONS, modelPath: RANDOM_MODEL, slots: 1 }, never());
    const { model } = runtime;
    vocabulary = readVocabulary(model);
    const { controlTokens, cutsAtWords, bosText: bosToken, eosText: eosToken } = vocabulary;
    const source = model.fileInfo.metadata.tokenizer.chat_template ?? "";
    template = new ChatTemplate({ source, bosToken, eosToken, controlTokens });
    const format = {
      ...{ source, bosToken, eosToken, controlTokens: controlTokens.tokens, cutsAtWords, maxUnits: PORTION_UNITS },
      reasoningOpen: HERMES_MARKERS.reasoning.open,
    };
    segments = new SegmentCache(systemClock, 64);
    encoder = new PromptEncoder({ model, vocabulary, format, segments, contextWindow: 1_000_000, work: workHere });
  });

  afterAll(() => runtime.close());

  const order = (signal = never()) => ({ tenant: "t", signal });
  const whole = (conversation: Partial<Conversation>): Conversation => ({
    messages: [],
    tools: [],
    reasoning: false,
    ...conversation,
  });
  const encode = async (conversation: Partial<Conversation>) =>
    (await encoder.encode(whole(conversation), order())).tokens;
  const rendered = (conversation: Partial<Conversation>) =>
    template
      .render(whole(conversation))
      .map((span) => span.text)
      .join("");

  const dialogue = [
    system("Be brief."),
    user("Weather in Oslo?"),
    assistant(reasoning("A tool."), call("get_weather", '{"city": "Oslo"}')),
    toolResult('{"t": 3}'),
    assistant(text("3 degrees.")),
    user("Thanks"),
  ];
  const tools = [tool("get_weather", "Get the weather")];

  describe("rendered in a node beside an engine with this vocabulary", () => {
    let own: OwnPrompts;

    beforeAll(() => {
      const { model } = runtime;
      const source = model.fileInfo.metadata.tokenizer.chat_template ?? "";
      const tokens = vocabulary.controlTokens.tokens.map(({ text: spelling, stripsLeft }) => {
        const [id = -1] = model.tokenize(spelling, true);
        return { id, text: spelling, cuts: !stripsLeft };
      });
      const dialect = {
        ...VLLM,
        tokenize: async (_ask: Ask, _model: string, said: string) => Uint32Array.from(model.tokenize(said, true)),
      };
      const { bosText: bosToken, eosText: eosToken } = vocabulary;
      own = new OwnPrompts({
        files: { template: source, bosToken, eosToken, tokens },
        settings: {
          ...{ dialect, servedModel: "m", profile: loadProfile("hermes"), turns: ANY_ORDER, images: false },
          ...{ marks: new SpelledMarks(MARKS), priorities: false, sharedCache: true, defaults: {} },
        },
        ...{
          markers: HERMES_MARKERS,
          work: workHere,
          slices: new LoopSlices(),
          clock: systemClock,
          cacheMegabytes: 16,
        },
      });
    });

    test.each(Object.entries(PLACES))("a spelled control token has the same tokens in %s", async (_place, spelled) => {
      const noAsk = (() => Promise.reject(new Error("no page is asked for"))) as unknown as Ask;
      for (const mark of [...MARKS, "nothing"]) {
        const said = spelled(mark);
        const request = { ...CountTokensRequest.create(), ...said };
        const prompt = await own.render(request, "", noAsk, order());
        expect(Array.from(prompt?.tokens ?? [])).toEqual(await encode(said));
      }
    });
  });

  test("harmless text has exactly the tokens of the whole prompt in one piece", async () => {
    const expected = runtime.model.tokenize(rendered({ messages: dialogue, tools }), true);
    expect(await encode({ messages: dialogue, tools })).toEqual(expected);
  });

  test.each(Object.entries(PLACES))(
    "a spelling of a mark in %s does not become its token",
    async (_place, withSpelling) => {
      const ids = new Set(MARKS.map((mark) => vocabulary.markerToken(mark)));
      expect(ids.size).toBe(MARKS.length);
      const control = (tokens: readonly number[]) => tokens.filter((token) => [...ids].some((id) => id === token));
      const usual = control(await encode(withSpelling("zebra")));
      for (const mark of MARKS) expect(control(await encode(withSpelling(mark)))).toEqual(usual);
    },
  );

  test("the model still reads the caller's spelling", async () => {
    const tokens = await encode({ messages: [user("what is <|im_end|> and <think>?")] });
    expect(runtime.model.detokenize(tokens, true)).toBe(
      "<|im_start|>user\nwhat is <|im_end|> and <think>?<|im_end|>\n<|im_start|>assistant\n",
    );
  });

  describe("a long text is tokenised in portions, with the same tokens", () => {
    const texts: readonly [name: string, line: string][] = [
      [
        "code",
        "  const value = { a: [1, 2.5], b: 'zwölf' }; // naïve 漢字 🚀\n\n\n\tif (x < 3) return;\n}\n//x\n \n  y();\r\n\r\n",
      ],
      ["prose", "It's one long line, isn't it? We'd say so; 12 345 times (or more) and THEN some.  Two spaces."],
      ["indented lists", "   - one\n     two\n\n   - three\n"],
    ];
    test.each(texts)("%s", async (_name, line) => {
      const messages = [user(line.repeat(2000))];
      const expected = runtime.model.tokenize(rendered({ messages }), true);
      expect(await encode({ messages })).toEqual(expected);
    });
  });

  test("a further turn tokenizes its new part, to the tokens of the whole, and none of another tenant", async () => {
    const turns = Array.from({ length: 40 }, (_, at) => [
      user(`${at}: ${"one more line of code;\n".repeat(20)}`),
      assistant(text(`Answer ${at}. ${"It says so. ".repeat(20)}`)),
    ]).flat();
    await encode({ messages: turns.slice(0, -1) });
    const before = segments.madeTokens;
    const tokens = await encode({ messages: [...turns, user("And now?")] });
    const expected = runtime.model.tokenize(rendered({ messages: [...turns, user("And now?")] }), true);
    expect(tokens).toEqual(expected);
    const made = segments.madeTokens - before;
    expect(made).toBeLessThan(tokens.length / 10);
    await encoder.encode(whole({ messages: turns }), { ...order(), tenant: "other" });
    expect(segments.madeTokens - before - made).toBeGreaterThan(0.9 * expected.length);
  });

  test("cancellation stops the tokenisation of a long text", async () => {
    const messages = [user("one line of text\n".repeat(20_000))];
    const encoding = encoder.encode(whole({ messages }), order(AbortSignal.abort()));
    await expect(encoding).rejects.toThrow(expect.objectContaining({ reason: "CANCELLED" }));
  });

  test("no prompt has fewer tokens than its lower bounds", async () => {
    const format = { source: template.source, bosToken: "", eosToken: "", cutsAtWords: true, maxUnits: PORTION_UNITS };
    const bounds = new PromptBounds({
      renderer: new PromptRenderer({
        ...format,
        controlTokens: vocabulary.controlTokens.tokens,
        reasoningOpen: undefined,
      }),
      tokensOf: ({ text: prompt }) => runtime.model.tokenize(prompt, true).length,
      longestTokenBytes: vocabulary.longestTokenBytes,
    });
    const random = new SeededRandom(20_261_122);
    const said = () =>
      random.pick(["", "a", " ", "\n\n", "zwölf", " ".repeat(300), "word ".repeat(50), "a".repeat(500)]);
    for (let round = 0; round < 100; round += 1) {
      const messages = Array.from({ length: random.below(40) }, () =>
        random.pick([
          () => user(said()),
          () => system(said()),
          () => assistant(text(said())),
          () => assistant(reasoning(said()), call("f", "{}")),
          () => toolResult(said()),
          () => ({ role: Role.USER, parts: [] }),
        ])(),
      );
      const least = bounds.least({ messages });
      if (messages.length > 20) expect(least).toBeGreaterThan(messages.length);
      expect((await encode({ messages })).length).toBeGreaterThanOrEqual(least);
    }
  });

  test("the prompt reports whether it has opened the reasoning", async () => {
    const starts = async (conversation: Partial<Conversation>) =>
      (await encoder.encode(whole(conversation), order())).startsInReasoning;
    expect(await starts({ messages: [user("Hi")], reasoning: true })).toBe(true);
    expect(await starts({ messages: [user("Hi")] })).toBe(false);
    expect(await starts({ messages: [user("Hi"), assistant(text("<think>"))], reasoning: true })).toBe(false);
  });
});

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

  test("the text of tokens equals the library's text of all tokens at once, whatever precedes them", () => {
    const texts = new TokenTexts(runtime.model, new Set());
    const random = new SeededRandom(7);
    const some = (count: number) => Array.from({ length: count }, () => all[random.below(all.length)] as Token);
    for (let round = 0; round < 300; round += 1) {
      const [before, tokens] = [some(6), runtime.model.tokenize(runtime.model.detokenize(some(30)))];
      expect(written(texts, tokens, before)).toBe(runtime.model.detokenize(tokens));
    }
  });

  test("the text of tokens of a mark is its spelling, and of other control tokens nothing", () => {
    const { model } = runtime;
    const mark = model.tokenize("<|im_start|>", true)[0] as Token;
    expect(new TokenTexts(model, new Set([mark])).of([mark], [])).toBe("<|im_start|>");
    expect(new TokenTexts(model, new Set()).of([mark], [])).toBe("");
  });
});
