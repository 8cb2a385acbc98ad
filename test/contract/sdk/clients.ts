import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import type { LanguageModel } from "ai";
import Anthropic0 from "anthropic-sdk-0";
import OpenAI from "openai";
import OpenAI5 from "openai-5";
import type { ScriptedService } from "../../support/gateway/scripted-service.ts";

/* The API used here is the same in both major versions of an SDK, so one type serves both. */

export const OPENAI = [
  ["openai", OpenAI],
  ["openai 5", OpenAI5 as unknown as typeof OpenAI],
] as const;

export const ANTHROPIC = [
  ["anthropic 1", Anthropic],
  ["anthropic 0.65", Anthropic0 as unknown as typeof Anthropic],
] as const;

export type ClientOptions = { readonly apiKey: string; readonly baseURL: string; readonly fetch?: typeof fetch };

/** The providers of the AI SDK, by their names with the API that they use. */
export const AI_MODELS = {
  "openai-compatible": (options, model = "svc-qwen") =>
    createOpenAICompatible({ name: "svc", includeUsage: true, ...options })(model),
  "openai, chat": (options, model = "svc-qwen") => createOpenAI(options).chat(model),
  "openai, responses": (options, model = "svc-qwen") => createOpenAI(options).responses(model),
  anthropic: (options, model = "svc-qwen") => createAnthropic(options)(model),
} as const satisfies Readonly<Record<string, (options: ClientOptions, model?: string) => LanguageModel>>;

export function optionsOf({ gateway }: ScriptedService): ClientOptions {
  return { apiKey: gateway.key, baseURL: `${gateway.baseUrl}/v1` };
}

export function openaiOf(service: ScriptedService, Sdk: typeof OpenAI = OpenAI): OpenAI {
  return new Sdk({ ...optionsOf(service), maxRetries: 0 });
}

/** The SDK of Format B adds the version to the path itself. */
export function anthropicOf({ gateway }: ScriptedService, Sdk: typeof Anthropic = Anthropic): Anthropic {
  return new Sdk({ apiKey: gateway.key, baseURL: gateway.baseUrl, maxRetries: 0 });
}
