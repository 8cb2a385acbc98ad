import { describe, expect, test } from "vitest";
import { fixedSentence } from "../../../support/engine/scripted-backend.ts";
import { keyWith, limitHeaders } from "../../../support/gateway/limited-key.ts";
import { ownService } from "../../../support/gateway/own-services.ts";
import { MINIMAL, POST_PATHS } from "../../../support/requests/minimal-bodies.ts";

/* Response headers with the remaining limits of a key. */

describe("the headers", () => {
  const A = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "9",
    "x-ratelimit-reset-requests": expect.stringMatching(/^(1s|\d{1,3}ms)$/),
    "x-ratelimit-limit-tokens": "5000",
    "x-ratelimit-remaining-tokens": expect.stringMatching(/^[34]\d{3}$/),
    "x-ratelimit-reset-tokens": expect.stringMatching(/^(\d+(\.\d+)?s|\d+ms)$/),
  };
  const moment = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  const B = Object.fromEntries(
    [
      ["requests", "60", "9"],
      ["tokens", "5000", expect.stringMatching(/^[34]\d{3}$/)],
      ["input-tokens", "90000", expect.stringMatching(/^(89\d{3})$/)],
      ["output-tokens", "5000", expect.stringMatching(/^[34]\d{3}$/)],
    ].flatMap(([what, limit, remaining]) => [
      [`anthropic-ratelimit-${what}-limit`, limit],
      [`anthropic-ratelimit-${what}-remaining`, remaining],
      [`anthropic-ratelimit-${what}-reset`, moment],
    ]),
  );

  test.each([
    ["/v1/chat/completions", A],
    ["/v1/responses", A],
    ["/v1/messages", B],
  ] as const)("stand on every answer of %s, in its family's syntax", async (path, expected) => {
    const { gateway } = await ownService(fixedSentence);
    for (const stream of [true, false]) {
      const auth = await keyWith(gateway, { rpm: 60, itpm: 90_000, otpm: 5_000 });
      const response = await gateway.post(path, { ...MINIMAL[path], stream }, auth);
      expect(response.status).toBe(200);
      expect(limitHeaders(response)).toEqual(expected);
      await response.text();
      const wrong = await gateway.post(path, {}, auth);
      expect(wrong.status).toBe(400);
      expect(Object.keys(limitHeaders(wrong)).sort()).toEqual(Object.keys(expected).sort());
      await wrong.text();
    }
  });

  test("stand on the models and on a count, which take nothing from generating", async () => {
    const { gateway } = await ownService(fixedSentence);
    const auth = await keyWith(gateway, { rpm: 60, otpm: 5_000 });
    const models = await gateway.get("/v1/models", auth);
    expect(limitHeaders(models)).toEqual({
      "x-ratelimit-limit-requests": "60",
      "x-ratelimit-remaining-requests": "10",
      "x-ratelimit-reset-requests": "0s",
      "x-ratelimit-limit-tokens": "5000",
      "x-ratelimit-remaining-tokens": "5000",
      "x-ratelimit-reset-tokens": "0s",
    });
    const count = "/v1/messages/count_tokens";
    const counted = limitHeaders(await gateway.post(count, MINIMAL[count], auth));
    expect(counted["anthropic-ratelimit-requests-remaining"]).toBe("9");
    expect(counted["anthropic-ratelimit-output-tokens-remaining"]).toBe("5000");
    expect(limitHeaders(await gateway.get("/v1/models", auth))["x-ratelimit-remaining-requests"]).toBe("10");
  });

  test("are absent for a key without limits, and have the prefix that is set", async () => {
    const { gateway } = await ownService(fixedSentence, { limits: { headerPrefix: "vendor" } });
    for (const path of POST_PATHS) {
      const response = await gateway.post(path, MINIMAL[path]);
      expect(response.status).toBe(200);
      expect(limitHeaders(response)).toEqual({});
      await response.text();
    }
    const auth = await keyWith(gateway, { rpm: 60 });
    const response = await gateway.post("/v1/messages", MINIMAL["/v1/messages"], auth);
    expect(Object.keys(limitHeaders(response)).every((name) => name.startsWith("vendor-ratelimit-requests-"))).toBe(
      true,
    );
    expect(Object.keys(limitHeaders(response))).toHaveLength(3);
    await response.text();
  });
});
