import OpenAI, { RateLimitError } from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { textAnswer } from "../../support/events/events.ts";
import { keyWith } from "../../support/gateway/limited-key.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { expectErrorA, expectErrorB } from "../../support/http/error-reply.ts";
import type { PostPath } from "../../support/requests/minimal-bodies.ts";

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const COUNT = "/v1/messages/count_tokens";
const RESPONSES = "/v1/responses";

const service = serviceOfFile();

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

async function use(path: PostPath, key: string): Promise<number> {
  const response = await service.post(path, {}, bearer(key));
  await response.text();
  return response.status;
}

/** A key with a limit of one request a minute. */
const createSlowKey = (name: string) => service.createKey("--name", name, "--models", "all", "--rpm", "1");

/** An SDK client that records the status of every reply. */
function countingClient(apiKey: string) {
  const statuses: number[] = [];
  const client = new OpenAI({
    apiKey,
    baseURL: `${service.gateway.baseUrl}/v1`,
    maxRetries: 2,
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      statuses.push(response.status);
      return response;
    },
  });
  const create = () =>
    client.chat.completions.create({ model: "svc-qwen", messages: [{ role: "user", content: "hi" }] });
  return { create, statuses };
}

describe("a key over its requests per minute", () => {
  test.each([CHAT, RESPONSES] as const)(
    "case 131: is 429 on %s with the retry delay, in all three ways",
    async (path) => {
      const key = await createSlowKey("slow");
      expect(await use(path, key)).toBe(200);
      const response = await service.post(path, {}, bearer(key));
      const seconds = Number(response.headers.get("retry-after"));
      const milliseconds = Number(response.headers.get("retry-after-ms"));
      expect(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60).toBe(true);
      expect(Math.abs(seconds - milliseconds / 1_000)).toBeLessThanOrEqual(1);
      expect(await expectErrorA(response, 429, "rate_limit_exceeded", null)).toMatch(/try again in \d+(\.\d+)?s\.$/);
    },
  );

  test.each([MESSAGES, COUNT] as const)("case 96b: is 429 on %s in Format B", async (path) => {
    const key = await createSlowKey("slow-b");
    expect(await use(path, key)).toBe(200);
    const response = await service.post(path, {}, bearer(key));
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    await expectErrorB(response, 429, "rate_limit_error");
  });

  test("case 96c (decision 3): a refused system role is not counted", async () => {
    const key = await createSlowKey("agent");
    const messages = [{ role: "system", content: "x" }];
    for (let session = 0; session < 3; session += 1)
      await expectErrorB(await service.post(MESSAGES, { messages }, bearer(key)), 400, "invalid_request_error");
    expect(await use(MESSAGES, key)).toBe(200);
    expect(await use(MESSAGES, key)).toBe(429);
  });
});

test("case 132: a spent quota is 429 insufficient_quota, and the SDK sends one request only", async () => {
  const auth = await keyWith(service.gateway, {}, { tokensPerDay: 10 });
  const key = auth.authorization.slice("Bearer ".length);
  // The first request uses it up, slightly after its answer.
  while ((await use(CHAT, key)) === 200);
  const response = await service.post(CHAT, {}, auth);
  expect(response.headers.get("x-should-retry")).toBe("false");
  await expectErrorA(response, 429, "insufficient_quota", null);
  const message = await expectErrorB(await service.post(MESSAGES, {}, auth), 429, "rate_limit_error");
  expect(message).toMatch(/quota/i);
  const { create, statuses } = countingClient(key);
  await expect(create()).rejects.toBeInstanceOf(RateLimitError);
  expect(statuses).toEqual([429]);
});

test("case 133: the SDK repeats a request after 503, and the second one is answered", async () => {
  let tries = 0;
  service.play(() => {
    tries += 1;
    if (tries === 1) throw new EngineError("QUEUE_FULL", "full");
    return [textAnswer("fine")];
  });
  const { create, statuses } = countingClient(service.gateway.key);
  expect((await create()).choices[0]?.message.content).toBe("fine");
  expect(statuses).toEqual([503, 200]);
});

describe("case 134: the headers of a key with limits", () => {
  let key: string;

  beforeAll(async () => {
    key = await service.createKey(
      ...["--name", "limited", "--models", "all", "--rpm", "600", "--itpm", "100000", "--otpm", "50000"],
    );
  });

  const DURATION = /^(0s|\d+ms|\d+(\.\d+)?s|(\d+h)?\d+m\d+s)$/;
  const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/;

  test.each([
    [CHAT, false],
    [CHAT, true],
    [RESPONSES, true],
    [MESSAGES, false],
    [MESSAGES, true],
  ] as const)("case 134a: are on a 200 of %s, stream %s, in the syntax of its SDK", async (path, stream) => {
    const response = await service.post(path, { stream }, bearer(key));
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
    const isB = path === MESSAGES;
    for (const what of isB ? ["requests", "tokens", "input-tokens", "output-tokens"] : ["requests", "tokens"]) {
      const [limit = "", remaining = "", reset = ""] = ["limit", "remaining", "reset"].map((word) =>
        response.headers.get(isB ? `anthropic-ratelimit-${what}-${word}` : `x-ratelimit-${word}-${what}`),
      );
      expect(Number(limit)).toBeGreaterThan(0);
      expect(Number(remaining)).toBeLessThanOrEqual(Number(limit));
      expect(reset).toMatch(isB ? INSTANT : DURATION);
    }
    expect(response.headers.get(isB ? "anthropic-ratelimit-requests-limit" : "x-ratelimit-limit-requests")).toBe("600");
  });

  test("case 134c: are absent for a key without limits", async () => {
    const response = await service.post(CHAT);
    await response.text();
    expect([...response.headers.keys()].filter((name) => name.includes("ratelimit"))).toEqual([]);
  });
});
