import { expect, test } from "vitest";
import { fixedSentence } from "../../../support/engine/scripted-backend.ts";
import { blockEnd, delta, finished, started, textStart } from "../../../support/events/events.ts";
import { keyWith, limitHeaders, setLimits } from "../../../support/gateway/limited-key.ts";
import { ownService } from "../../../support/gateway/own-services.ts";
import { readBody } from "../../../support/http/read-until.ts";
import { statusOf } from "../../../support/http/status-of.ts";
import { latch } from "../../../support/latch.ts";
import { MINIMAL } from "../../../support/requests/minimal-bodies.ts";
import { until } from "../../../support/until.ts";

/* Rates of a key, and the response headers with what remains of them. */

test("a key over its rate is refused before its body is understood; it may still count tokens and list models", async () => {
  const { engine, gateway } = await ownService(fixedSentence);
  const auth = await keyWith(gateway, { rpm: 1 });
  expect(await statusOf(gateway.post("/v1/responses", "not json", auth))).toBe(400);
  expect(await statusOf(gateway.post("/v1/responses", "not json", auth))).toBe(429);
  const count = "/v1/messages/count_tokens";
  expect(await statusOf(gateway.post(count, MINIMAL[count], auth))).toBe(200);
  expect(await statusOf(gateway.get("/v1/models", auth))).toBe(200);
  expect(engine.backend.requests).toHaveLength(0);
  expect(await statusOf(gateway.post("/v1/responses", MINIMAL["/v1/responses"]))).toBe(200);
  await until(() => gateway.log.some((line) => line.includes('"detail":"key_rpm_exceeded"')), "the refusal is logged");
});

test("new rates of a key hold for its next request", async () => {
  const { gateway } = await ownService(fixedSentence);
  const auth = await keyWith(gateway, { rpm: 1 });
  const path = "/v1/chat/completions";
  const post = () => statusOf(gateway.post(path, MINIMAL[path], auth));
  expect([await post(), await post()]).toEqual([200, 429]);
  await setLimits(gateway, auth.authorization.slice("Bearer ".length), {});
  expect([await post(), await post()]).toEqual([200, 200]);
  await setLimits(gateway, auth.authorization.slice("Bearer ".length), { rpm: 1 });
  expect([await post(), await post(), await post()]).toContain(429);
});

test("a stream that goes over the limit is not cut; the next request waits", async () => {
  const pieces = Array.from({ length: 3_000 }, (_, i) => delta(0, `${i} `));
  const half = latch();
  const { gateway } = await ownService(async function* () {
    yield [started(), textStart(0), ...pieces.slice(0, 2_000)];
    await half.passed;
    yield [...pieces.slice(2_000), blockEnd(0), finished(undefined, { outputTokens: 3_000 })];
  });
  const auth = await keyWith(gateway, { otpm: 1_100 });
  const path = "/v1/chat/completions";
  const reader = readBody(await gateway.post(path, { ...MINIMAL[path], stream: true }, auth));
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

test.each(["/v1/chat/completions", "/v1/responses", "/v1/messages"] as const)(
  "the headers of an answer of %s show the reservation, and a refused body has them, too",
  async (path) => {
    const { gateway } = await ownService(fixedSentence);
    const auth = await keyWith(gateway, { rpm: 60, itpm: 90_000, otpm: 5_000 });
    const response = await gateway.post(path, MINIMAL[path], auth);
    const headers = limitHeaders(response);
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
    const isB = path === "/v1/messages";
    expect(headers).toMatchObject(
      isB
        ? {
            "anthropic-ratelimit-requests-remaining": "59",
            "anthropic-ratelimit-input-tokens-remaining": expect.stringMatching(/^89\d{3}$/),
            "anthropic-ratelimit-output-tokens-remaining": expect.stringMatching(/^[34]\d{3}$/),
          }
        : {
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-remaining-tokens": expect.stringMatching(/^[34]\d{3}$/),
          },
    );
    expect(Object.keys(headers)).toHaveLength(isB ? 12 : 6);
    const wrong = await gateway.post(path, {}, auth);
    expect(wrong.status).toBe(400);
    expect(Object.keys(limitHeaders(wrong)).sort()).toEqual(Object.keys(headers).sort());
    await wrong.text();
  },
);

test("a list of models and a count have the headers, and take nothing from generations", async () => {
  const { gateway } = await ownService(fixedSentence);
  const auth = await keyWith(gateway, { rpm: 60, otpm: 5_000 });
  const rested = {
    ...{ "x-ratelimit-limit-requests": "60", "x-ratelimit-limit-tokens": "5000" },
    ...{ "x-ratelimit-remaining-requests": "60", "x-ratelimit-remaining-tokens": "5000" },
    ...{ "x-ratelimit-reset-requests": "0s", "x-ratelimit-reset-tokens": "0s" },
  };
  const models = async () => limitHeaders(await gateway.get("/v1/models", auth));
  expect(await models()).toEqual(rested);
  const count = "/v1/messages/count_tokens";
  const counted = limitHeaders(await gateway.post(count, MINIMAL[count], auth));
  expect(counted["anthropic-ratelimit-requests-remaining"]).toBe("59");
  expect(counted["anthropic-ratelimit-output-tokens-remaining"]).toBe("5000");
  expect(await models()).toEqual(rested);
});
