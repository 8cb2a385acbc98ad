import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { APICallError, generateText, type LanguageModel } from "ai";
import Anthropic0 from "anthropic-sdk-0";
import OpenAI from "openai";
import OpenAI5 from "openai-5";
import { beforeAll, describe, expect, test } from "vitest";
import { EngineError, type ErrorReason } from "../../../engine/errors.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";

const service = serviceOfFile({ gateway: { maxBodyBytes: 4_096 } });
let narrow: string;
let spent: string;

beforeAll(async () => {
  narrow = await service.createKey("--name", "narrow", "--models", "svc-qwen");
  spent = await service.createKey("--name", "spent", "--models", "all", "--rpm", "1");
  await (await service.post("/v1/chat/completions", {}, { authorization: `Bearer ${spent}` })).text();
});

type Call = { readonly key: string; readonly model: string; readonly text: string };

const baseURL = () => `${service.gateway.baseUrl}/v1`;

/** The API used here is the same in both major versions, so one type serves both. */
const openaiChat =
  (Sdk: typeof OpenAI) =>
  ({ key, model, text }: Call) =>
    new Sdk({ apiKey: key, baseURL: baseURL(), maxRetries: 0 }).chat.completions.create({
      model,
      messages: [{ role: "user", content: text }],
    });

const openaiResponses =
  (Sdk: typeof OpenAI) =>
  ({ key, model, text }: Call) =>
    new Sdk({ apiKey: key, baseURL: baseURL(), maxRetries: 0 }).responses.create({ model, input: text });

const anthropicMessages =
  (Sdk: typeof Anthropic) =>
  ({ key, model, text }: Call) =>
    new Sdk({ apiKey: key, baseURL: service.gateway.baseUrl, maxRetries: 0 }).messages.create({
      model,
      max_tokens: 16,
      messages: [{ role: "user", content: text }],
    });

const aiSdk =
  (provider: (call: Call) => LanguageModel) =>
  (call: Call): Promise<unknown> =>
    generateText({ model: provider(call), prompt: call.text, maxRetries: 0, maxOutputTokens: 16 });

const Openai5 = OpenAI5 as unknown as typeof OpenAI;
const OldAnthropic = Anthropic0 as unknown as typeof Anthropic;

type ErrorClass = abstract new (...args: never[]) => Error;

/** The SDK's error classes for our statuses; it has one class for all others from 500 on. */
type Classes = {
  readonly badRequest: ErrorClass;
  readonly authentication: ErrorClass;
  readonly notFound: ErrorClass;
  readonly tooLarge: ErrorClass;
  readonly rateLimit: ErrorClass;
  readonly overloaded: ErrorClass;
  readonly timeout: ErrorClass;
};

const openaiClasses = (Sdk: typeof OpenAI): Classes => ({
  badRequest: Sdk.BadRequestError,
  authentication: Sdk.AuthenticationError,
  notFound: Sdk.NotFoundError,
  tooLarge: Sdk.APIError,
  rateLimit: Sdk.RateLimitError,
  overloaded: Sdk.InternalServerError,
  timeout: Sdk.InternalServerError,
});

const oldAnthropicClasses: Classes = {
  badRequest: OldAnthropic.BadRequestError,
  authentication: OldAnthropic.AuthenticationError,
  notFound: OldAnthropic.NotFoundError,
  tooLarge: OldAnthropic.APIError,
  rateLimit: OldAnthropic.RateLimitError,
  overloaded: OldAnthropic.InternalServerError,
  timeout: OldAnthropic.InternalServerError,
};

const anthropicClasses: Classes = {
  badRequest: Anthropic.BadRequestError,
  authentication: Anthropic.AuthenticationError,
  notFound: Anthropic.NotFoundError,
  tooLarge: Anthropic.ContentTooLargeError,
  rateLimit: Anthropic.RateLimitError,
  overloaded: Anthropic.OverloadedError,
  timeout: Anthropic.GatewayTimeoutError,
};

const aiClasses: Classes = {
  badRequest: APICallError,
  authentication: APICallError,
  notFound: APICallError,
  tooLarge: APICallError,
  rateLimit: APICallError,
  overloaded: APICallError,
  timeout: APICallError,
};

type Sdk = {
  readonly name: string;
  readonly call: (call: Call) => PromiseLike<unknown>;
  readonly classes: Classes;
  readonly overloadStatus: number;
};

const SDKS: readonly Sdk[] = [
  { name: "openai, chat", call: openaiChat(OpenAI), classes: openaiClasses(OpenAI), overloadStatus: 503 },
  { name: "openai 5, chat", call: openaiChat(Openai5), classes: openaiClasses(Openai5), overloadStatus: 503 },
  { name: "openai, responses", call: openaiResponses(OpenAI), classes: openaiClasses(OpenAI), overloadStatus: 503 },
  { name: "openai 5, responses", call: openaiResponses(Openai5), classes: openaiClasses(Openai5), overloadStatus: 503 },
  { name: "anthropic 1", call: anthropicMessages(Anthropic), classes: anthropicClasses, overloadStatus: 529 },
  { name: "anthropic 0.65", call: anthropicMessages(OldAnthropic), classes: oldAnthropicClasses, overloadStatus: 529 },
  {
    name: "ai, openai-compatible",
    call: aiSdk(({ key, model }) => createOpenAICompatible({ name: "svc", apiKey: key, baseURL: baseURL() })(model)),
    classes: aiClasses,
    overloadStatus: 503,
  },
  {
    name: "ai, openai chat",
    call: aiSdk(({ key, model }) => createOpenAI({ apiKey: key, baseURL: baseURL() }).chat(model)),
    classes: aiClasses,
    overloadStatus: 503,
  },
  {
    name: "ai, openai responses",
    call: aiSdk(({ key, model }) => createOpenAI({ apiKey: key, baseURL: baseURL() }).responses(model)),
    classes: aiClasses,
    overloadStatus: 503,
  },
  {
    name: "ai, anthropic",
    call: aiSdk(({ key, model }) => createAnthropic({ apiKey: key, baseURL: baseURL() })(model)),
    classes: aiClasses,
    overloadStatus: 529,
  },
];

describe.each(SDKS)("$name", ({ call, classes, overloadStatus }) => {
  async function thrownBy(fields: Partial<Call>): Promise<unknown> {
    const whole = { key: service.gateway.key, model: "svc-qwen", text: "hi", ...fields };
    try {
      await call(whole);
    } catch (error) {
      return error;
    }
    throw new Error("the call did not fail");
  }

  function expectThrown(error: unknown, expected: ErrorClass, status: number): void {
    expect(error).toBeInstanceOf(expected);
    const key = error instanceof APICallError ? "statusCode" : "status";
    expect(error).toMatchObject({ [key]: status, message: expect.stringMatching(/.+/) });
  }

  function playFailure(reason: ErrorReason): void {
    service.play(() => {
      throw new EngineError(reason, "a failure");
    });
  }

  test("400: a model outside the catalog", async () => {
    expectThrown(await thrownBy({ model: "gpt-4o" }), classes.badRequest, 400);
  });

  test("401: a wrong key", async () => {
    expectThrown(await thrownBy({ key: "wrong" }), classes.authentication, 401);
  });

  test("404: a model without access for the key", async () => {
    expectThrown(await thrownBy({ key: narrow, model: "svc-glm53" }), classes.notFound, 404);
  });

  test("413: a body above the limit", async () => {
    expectThrown(await thrownBy({ text: "x".repeat(5_000) }), classes.tooLarge, 413);
  });

  test("429: a key over its limit", async () => {
    expectThrown(await thrownBy({ key: spent }), classes.rateLimit, 429);
  });

  test(`${overloadStatus}: an engine without capacity`, async () => {
    playFailure("QUEUE_FULL");
    expectThrown(await thrownBy({}), classes.overloaded, overloadStatus);
  });

  test("504: an engine that times out", async () => {
    playFailure("DEADLINE");
    expectThrown(await thrownBy({}), classes.timeout, 504);
  });
});
