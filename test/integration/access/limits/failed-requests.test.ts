import { describe, expect, test } from "vitest";
import { EngineError, type ErrorReason } from "../../../../engine/errors.ts";
import { fixedSentence } from "../../../support/engine/scripted-backend.ts";
import { started } from "../../../support/events/events.ts";
import { keyWith } from "../../../support/gateway/limited-key.ts";
import { ownService } from "../../../support/gateway/own-services.ts";
import { readBody } from "../../../support/http/read-until.ts";
import { statusOf } from "../../../support/http/status-of.ts";
import { latch } from "../../../support/latch.ts";
import { MINIMAL } from "../../../support/requests/minimal-bodies.ts";

/* Charges for requests that the service failed. */

/** A script that fails before its first event. */
const failing = (reason: ErrorReason) => () => {
  throw new EngineError(reason, "gone");
};

describe("D10 the cost of requests that the service failed", () => {
  const path = "/v1/chat/completions";

  test.each(["ENGINE_DOWN", "ENGINE_ERROR", "ENGINE_ABORTED", "PROTOCOL_VIOLATION"] as const)(
    "%s, which the request itself may have caused, counts as a request",
    async (reason) => {
      const { engine, gateway } = await ownService(failing(reason));
      for (const stream of [true, false]) {
        const auth = await keyWith(gateway, { rpm: 1 });
        const post = () => statusOf(gateway.post(path, { ...MINIMAL[path], stream }, auth));
        expect([await post(), await post()]).toEqual([503, 429]);
      }
      expect(engine.backend.requests).toHaveLength(2);
    },
  );

  test.each(["QUEUE_FULL", "DRAINING", "MODEL_LOADING"] as const)(
    "D10 a request that the service failed costs nothing: %s",
    async (reason) => {
      const { gateway } = await ownService(failing(reason));
      const auth = await keyWith(gateway, { rpm: 1 });
      for (const stream of [true, false, true])
        expect(await statusOf(gateway.post(path, { ...MINIMAL[path], stream }, auth))).toBe(503);
    },
  );

  test("a node that falls silent leaves its counted tokens charged, also to the daily quota", async () => {
    const { gateway } = await ownService(
      async function* () {
        yield [started({ inputTokens: 90 })];
        await new Promise(() => {});
      },
      { timeouts: { perTryIdleTimeoutMs: 100 } },
    );
    const auth = await keyWith(gateway, {}, { tokensPerDay: 90 });
    expect(await statusOf(gateway.post(path, MINIMAL[path], auth))).toBe(503);
    const next = await gateway.post(path, MINIMAL[path], auth);
    expect(await next.json()).toMatchObject({ error: { code: "insufficient_quota" } });
  });

  test("the daily quota is not charged for tokens that no engine processed", async () => {
    const { gateway } = await ownService(failing("ENGINE_DOWN"));
    const auth = await keyWith(gateway, {}, { tokensPerDay: 1 });
    for (let i = 0; i < 3; i += 1) expect(await statusOf(gateway.post(path, MINIMAL[path], auth))).toBe(503);
  });

  test("a failure behind a sign of life is charged as one before it", async () => {
    const fail = latch();
    const { gateway } = await ownService(
      async function* () {
        yield [started()];
        await fail.passed;
        throw new EngineError("ENGINE_DOWN", "gone");
      },
      { timeouts: { keepAliveIntervalMs: 20 } },
    );
    const auth = await keyWith(gateway, { rpm: 1 });
    const body = { ...MINIMAL["/v1/messages"], stream: true };
    const first = await gateway.post("/v1/messages", body, auth);
    expect(first.status).toBe(200);
    fail.open();
    expect((await readBody(first).toEndOrCut()).cut).toBe(true);
    expect(await statusOf(gateway.post("/v1/messages", MINIMAL["/v1/messages"], auth))).toBe(429);
  });

  test("a count over which nodes fail counts as a count", async () => {
    const { engine, gateway } = await ownService(fixedSentence);
    engine.backend.countTokens = async () => {
      throw new EngineError("ENGINE_ERROR", "gone");
    };
    const auth = await keyWith(gateway, { rpm: 1 });
    const count = "/v1/messages/count_tokens";
    const post = () => statusOf(gateway.post(count, MINIMAL[count], auth));
    expect([await post(), await post()]).toEqual([529, 429]);
  });
});
