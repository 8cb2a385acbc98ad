import { describe, expect, test } from "vitest";
import { fixedSentence } from "../../../support/engine/scripted-backend.ts";
import { blockEnd, delta, finished, started, textStart } from "../../../support/events/events.ts";
import { gate } from "../../../support/gate.ts";
import { keyWith, limitHeaders, setLimits } from "../../../support/gateway/limited-key.ts";
import { ownService } from "../../../support/gateway/own-services.ts";
import { expectErrorA, expectErrorB } from "../../../support/http/error-reply.ts";
import { readBody } from "../../../support/http/read-until.ts";
import { statusOf } from "../../../support/http/status-of.ts";
import { MINIMAL, POST_PATHS, type PostPath } from "../../../support/requests/minimal-bodies.ts";
import { until } from "../../../support/until.ts";

/* Rates and quotas of a key: requests and tokens per minute, tokens per day. */

const isB = (path: PostPath) => path.startsWith("/v1/messages");

const counted = finished(undefined, { inputTokens: 90 });

describe("a key over its requests per minute", () => {
  test.each(POST_PATHS)("is refused on %s with the time to come back; another key is not", async (path) => {
    const { engine, gateway } = await ownService(fixedSentence);
    const auth = await keyWith(gateway, { rpm: 1 });
    expect(await statusOf(gateway.post(path, MINIMAL[path], auth))).toBe(200);
    const seen = engine.backend.requests.length;
    const refused = await gateway.post(path, MINIMAL[path], auth);
    const ms = Number(refused.headers.get("retry-after-ms"));
    const seconds = Number(refused.headers.get("retry-after"));
    expect(ms).toBeGreaterThan(0);
    expect(seconds).toBe(Math.ceil(ms / 1_000));
    expect(refused.headers.get("x-should-retry")).toBeNull();
    const message = isB(path)
      ? await expectErrorB(refused.clone(), 429, "rate_limit_error")
      : await expectErrorA(refused.clone(), 429, "rate_limit_exceeded", null);
    if (!isB(path)) expect(await refused.json()).toMatchObject({ error: { type: "requests" } });
    expect(message).toMatch(/limit 1\/min\. Please try again in \d+(\.\d+)?s\.$/);
    expect(engine.backend.requests).toHaveLength(seen);
    expect(await statusOf(gateway.post(path, MINIMAL[path]))).toBe(200);
  });

  test("may still count tokens and list models, and the log has the reason of the refusal", async () => {
    const { gateway } = await ownService(fixedSentence);
    const auth = await keyWith(gateway, { rpm: 1 });
    const chat = () => statusOf(gateway.post("/v1/chat/completions", MINIMAL["/v1/chat/completions"], auth));
    expect([await chat(), await chat()]).toEqual([200, 429]);
    const count = "/v1/messages/count_tokens";
    expect(await statusOf(gateway.post(count, MINIMAL[count], auth))).toBe(200);
    expect(await statusOf(gateway.get("/v1/models", auth))).toBe(200);
    await until(
      () => gateway.log.some((line) => line.includes('"detail":"key_rpm_exceeded"')),
      "the refusal is logged",
    );
  });

  test("is refused before its body is understood", async () => {
    const { gateway } = await ownService(fixedSentence);
    const auth = await keyWith(gateway, { rpm: 1 });
    expect(await statusOf(gateway.post("/v1/responses", "not json", auth))).toBe(400);
    expect(await statusOf(gateway.post("/v1/responses", "not json", auth))).toBe(429);
  });
});

describe("uncounted requests", () => {
  test("the one refusal that opens an agent's session", async () => {
    const { gateway } = await ownService(fixedSentence);
    const auth = await keyWith(gateway, { rpm: 1 });
    const body = MINIMAL["/v1/messages"];
    const messages = [{ role: "system", content: "x" }, ...body.messages];
    for (let i = 0; i < 3; i += 1)
      expect(await statusOf(gateway.post("/v1/messages", { ...body, messages }, auth))).toBe(400);
    expect(await statusOf(gateway.post("/v1/messages", body, auth))).toBe(200);
    expect(await statusOf(gateway.post("/v1/messages", body, auth))).toBe(429);
  });

  test("a request that is refused for its tokens", async () => {
    const script = () => [[started({ inputTokens: 90 }), textStart(0), delta(0, "x"), blockEnd(0), counted]];
    const { gateway } = await ownService(script);
    const auth = await keyWith(gateway, { rpm: 12, itpm: 100 });
    const big = { model: "svc-qwen", input: "x".repeat(3_000) };
    expect(await statusOf(gateway.post("/v1/responses", big, auth))).toBe(200);
    for (let i = 0; i < 3; i += 1) {
      const refused = await gateway.post("/v1/responses", big, auth);
      expect(await refused.json()).toMatchObject({ error: { type: "tokens", code: "rate_limit_exceeded" } });
    }
    const models = await gateway.get("/v1/models", auth);
    expect(limitHeaders(models)["x-ratelimit-remaining-requests"]).toBe("1");
  });
});

describe("tokens", () => {
  test("a stream that goes over the limit is not cut; the next request waits", async () => {
    const pieces = Array.from({ length: 3_000 }, (_, i) => `${i} `);
    const half = gate();
    const { gateway } = await ownService(async function* () {
      yield [started(), textStart(0), ...pieces.slice(0, 2_000).map((piece) => delta(0, piece))];
      await half.passed;
      yield [
        ...pieces.slice(2_000).map((piece) => delta(0, piece)),
        blockEnd(0),
        finished(undefined, { outputTokens: 3_000 }),
      ];
    });
    const auth = await keyWith(gateway, { otpm: 1_100 });
    const path = "/v1/chat/completions";
    const response = await gateway.post(path, { ...MINIMAL[path], stream: true }, auth);
    const reader = readBody(response);
    await reader.until((text) => text.includes('"1999 "'));
    const refused = await gateway.post(path, MINIMAL[path], auth);
    expect(await refused.json()).toMatchObject({ error: { type: "tokens", code: "rate_limit_exceeded" } });
    half.open();
    const text = await reader.toEnd();
    expect(text).toContain('"2999 "');
    expect(text.trimEnd().endsWith("data: [DONE]")).toBe(true);
    const later = await gateway.post(path, MINIMAL[path], auth);
    expect(await later.json()).toMatchObject({ error: { message: expect.stringContaining("output tokens") } });
    expect(limitHeaders(later)["x-ratelimit-remaining-tokens"]).toBe("0");
  });

  test("a quota that is used up is final for the client", async () => {
    const { gateway } = await ownService(fixedSentence);
    const auth = await keyWith(gateway, {}, { tokensPerDay: 14 });
    for (const path of ["/v1/chat/completions", "/v1/responses", "/v1/messages"] as const) {
      await setLimits(gateway, auth, {}, { tokensPerDay: 1_000_000 });
      expect(await statusOf(gateway.post(path, MINIMAL[path], auth))).toBe(200);
      await setLimits(gateway, auth, {}, { tokensPerDay: 14 });
      const refused = await gateway.post(path, MINIMAL[path], auth);
      expect(refused.headers.get("x-should-retry")).toBe("false");
      expect(refused.headers.has("retry-after")).toBe(true);
      if (isB(path)) await expectErrorB(refused, 429, "rate_limit_error");
      else await expectErrorA(refused, 429, "insufficient_quota", null);
    }
  });
});

test("a change of the record holds from the next request on", async () => {
  const { gateway } = await ownService(fixedSentence);
  const auth = await keyWith(gateway, { rpm: 6 });
  const post = () => statusOf(gateway.post("/v1/responses", MINIMAL["/v1/responses"], auth));
  expect([await post(), await post()]).toEqual([200, 429]);
  await setLimits(gateway, auth, { rpm: 12 });
  expect([await post(), await post()]).toEqual([200, 429]);
});
