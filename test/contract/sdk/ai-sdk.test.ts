import { generateText, jsonSchema, type LanguageModel, streamText, type ToolSet } from "ai";
import { describe, expect, test } from "vitest";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { TRANSCRIPTS, TRANSCRIPTS_OF_WHOLE_CALLS, transcript } from "../../support/events/transcripts.ts";
import { ERROR_FRAMES, serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { AI_MODELS, optionsOf } from "./clients.ts";

const service = serviceOfFile({ gateway: { formats: ERROR_FRAMES } });

const summary = { openai: { reasoningSummary: "auto", store: false, forceReasoning: true } };

/** The provider of a model, its further options, whether it shows reasoning, and the answers it folds to the reply. */
const PROVIDERS = [
  ["case 73b: openai-compatible", AI_MODELS["openai-compatible"], {}, true, TRANSCRIPTS],
  ["case 73c: openai, chat", AI_MODELS["openai, chat"], {}, false, TRANSCRIPTS],
  ["case 130b: openai, responses", AI_MODELS["openai, responses"], summary, true, TRANSCRIPTS],
  ["case 103b: anthropic", AI_MODELS.anthropic, {}, true, TRANSCRIPTS_OF_WHOLE_CALLS],
] as const;

const anyArguments: ToolSet[string] = { inputSchema: jsonSchema({ type: "object" }) };

function request(model: LanguageModel, providerOptions: object) {
  return {
    model,
    prompt: "hi",
    maxRetries: 0,
    maxOutputTokens: 64,
    providerOptions: { ...providerOptions },
    tools: { read_file: anyArguments, now: anyArguments, write: anyArguments },
  };
}

type Answer = Pick<Awaited<ReturnType<typeof generateText>>, "text" | "reasoningText" | "finishReason"> & {
  readonly toolCalls: readonly { readonly toolName: string; readonly input: unknown }[];
  readonly usage: { readonly inputTokens: number | undefined; readonly outputTokens: number | undefined };
};

function summaryOf({ text, reasoningText, finishReason, toolCalls, usage }: Answer) {
  return {
    text,
    reasoning: reasoningText ?? "",
    finishReason,
    calls: toolCalls.map(({ toolName, input }) => ({ toolName, input })),
    tokens: [usage.inputTokens, usage.outputTokens],
  };
}

describe.each(PROVIDERS)("%s", (_, modelOf, providerOptions, showsReasoning, transcripts) => {
  const model = () => modelOf(optionsOf(service));

  async function streamedAnswer() {
    const errors: unknown[] = [];
    const result = streamText({
      ...request(model(), providerOptions),
      onError: ({ error }) => {
        errors.push(error);
      },
    });
    const parts: string[] = [];
    for await (const part of result.fullStream) parts.push(part.type);
    return { result, errors, parts };
  }

  test.each(transcripts)("a stream of %s is the folded reply", async (name) => {
    service.play(transcript(name));
    const folded = summaryOf(await generateText(request(model(), providerOptions)));
    const { result, errors } = await streamedAnswer();
    expect(errors).toEqual([]);
    const streamed = summaryOf({
      text: await result.text,
      reasoningText: await result.reasoningText,
      finishReason: await result.finishReason,
      toolCalls: await result.toolCalls,
      usage: await result.usage,
    });
    expect(streamed).toEqual(folded);
  });

  test("reasoning, text, both calls and the usage arrive", async () => {
    service.play(transcript("reasoning_text_two_tools"));
    const answer = summaryOf(await generateText(request(model(), providerOptions)));
    expect(answer).toEqual({
      text: "Reading.",
      reasoning: showsReasoning ? "I need two files." : "",
      finishReason: "tool-calls",
      calls: ["a.ts", "b.ts"].map((path) => ({ toolName: "read_file", input: { path } })),
      tokens: [12, 7],
    });
  });

  test("an engine lost in mid-stream is an error of the stream", async () => {
    service.play(lostMidway);
    const { errors, parts } = await streamedAnswer();
    expect(errors).not.toEqual([]);
    expect(parts).toContain("error");
  });
});
