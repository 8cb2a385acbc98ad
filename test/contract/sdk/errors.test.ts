import Anthropic from "@anthropic-ai/sdk";
import { APICallError, generateText } from "ai";
import type OpenAI from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { EngineError, type ErrorReason } from "../../../engine/errors.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { AI_MODELS, ANTHROPIC, OPENAI } from "./clients.ts";

const service = serviceOfFile({ gateway: { maxBodyBytes: 4_096 } });
let narrow: string;
let spent: string;

beforeAll(async () => {
  narrow = await service.createKey("--name", "narrow", "--models", "svc-qwen");
  spent = await service.createKey("--name", "spent", "--models", "all", "--rpm", "1");
  await (await service.post("/v1/chat/completions", {}, { authorization: `Bearer ${spent}` })).text();
});

type Call = { readonly key: string; readonly model: string; readonly text: string };

const optionsFor = (key: string) => ({ apiKey: key, baseURL: `${service.gateway.baseUrl}/v1`, maxRetries: 0 });
const turn = (content: string) => [{ role: "user" as const, content }];

type ErrorClass = abstract new (...args: never[]) => Error;

/** The SDK's error class for each of our statuses; those from 500 on share one where not said otherwise. */
const classesOf = (Sdk: typeof OpenAI | typeof Anthropic): Record<number, ErrorClass> => ({
  ...{ 400: Sdk.BadRequestError, 401: Sdk.AuthenticationError, 404: Sdk.NotFoundError, 413: Sdk.APIError },
  ...{ 429: Sdk.RateLimitError, 504: Sdk.InternalServerError },
});

type Sdk = readonly [
  name: string,
  call: (call: Call) => PromiseLike<unknown>,
  classes: Readonly<Record<number, ErrorClass>>,
];

const SDKS: readonly Sdk[] = [
  ...OPENAI.flatMap(([name, Sdk]): Sdk[] => {
    const classes = { ...classesOf(Sdk), 503: Sdk.InternalServerError };
    const client = ({ key }: Call) => new Sdk(optionsFor(key));
    return [
      [
        `${name}, chat`,
        (call) => client(call).chat.completions.create({ model: call.model, messages: turn(call.text) }),
        classes,
      ],
      [`${name}, responses`, (call) => client(call).responses.create({ model: call.model, input: call.text }), classes],
    ];
  }),
  ...ANTHROPIC.map(([name, Sdk]): Sdk => {
    const { ContentTooLargeError, OverloadedError, GatewayTimeoutError } = Anthropic;
    const newer = { 413: ContentTooLargeError, 529: OverloadedError, 504: GatewayTimeoutError };
    const own = Sdk === Anthropic ? newer : { 529: Sdk.InternalServerError };
    return [
      name,
      ({ key, model, text }) => {
        const client = new Sdk({ ...optionsFor(key), baseURL: service.gateway.baseUrl });
        return client.messages.create({ model, max_tokens: 16, messages: turn(text) });
      },
      { ...classesOf(Sdk), ...own },
    ];
  }),
  ...Object.entries(AI_MODELS).map(([name, modelOf]): Sdk => {
    const statuses = [400, 401, 404, 413, 429, 504, name === "anthropic" ? 529 : 503];
    return [
      `ai, ${name}`,
      ({ key, model, text }) =>
        generateText({ model: modelOf(optionsFor(key), model), prompt: text, maxRetries: 0, maxOutputTokens: 16 }),
      Object.fromEntries(statuses.map((status) => [status, APICallError])),
    ];
  }),
];

function failing(reason: ErrorReason): Partial<Call> {
  service.play(() => {
    throw new EngineError(reason, "a failure");
  });
  return {};
}

const FAILURES: Readonly<Record<number, () => Partial<Call>>> = {
  400: () => ({ model: "gpt-4o" }),
  401: () => ({ key: "wrong" }),
  404: () => ({ key: narrow, model: "svc-glm53" }),
  413: () => ({ text: "x".repeat(5_000) }),
  429: () => ({ key: spent }),
  503: () => failing("QUEUE_FULL"),
  504: () => failing("DEADLINE"),
  529: () => failing("QUEUE_FULL"),
};

describe.each(SDKS)("%s", (_, call, classes) => {
  test.each(Object.entries(classes))("throws its error for status %s", async (status, expected) => {
    const fields = FAILURES[Number(status)]?.();
    const sent = async () => call({ key: service.gateway.key, model: "svc-qwen", text: "hi", ...fields });
    const thrown = await sent().then(
      () => expect.fail("the call did not fail"),
      (error: unknown) => error,
    );
    expect(thrown).toBeInstanceOf(expected);
    const key = thrown instanceof APICallError ? "statusCode" : "status";
    expect(thrown).toMatchObject({ [key]: Number(status), message: expect.stringMatching(/.+/) });
  });
});
