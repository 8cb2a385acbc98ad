import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { HELLO, type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { expectErrorA, expectErrorB } from "../../support/http/error-reply.ts";
import { head, RawConnection } from "../../support/http/raw-http.ts";
import { latch } from "../../support/latch.ts";
import type { PostPath } from "../../support/requests/minimal-bodies.ts";
import { MINIMAL, POST_PATHS } from "../../support/requests/minimal-bodies.ts";

/* Limits of a key's record other than rates: bodies, answers, waiting requests. */

const CHAT = "/v1/chat/completions";
const MAX_BODY = 100_000;

let service: ScriptedService;

beforeAll(async () => {
  service = await startScriptedService({ engine: { slots: 1 }, gateway: { maxBodyBytes: MAX_BODY } });
});

afterEach(() => service.play(HELLO));

afterAll(() => service.stop());

const keyWith = async (...limits: readonly string[]) => {
  const key = await service.createKey("--name", "limited", "--models", "all", ...limits);
  return { authorization: `Bearer ${key}` };
};

const isB = (path: PostPath) => path.startsWith("/v1/messages");
const withText = (path: PostPath, bytes: number) => JSON.stringify({ ...MINIMAL[path], x: "x".repeat(bytes) });

describe("the largest body of a key", () => {
  test.each(POST_PATHS)(
    "the largest body of a key is refused on %s with 413 before it is read, and while it is",
    async (path) => {
      const { authorization } = await keyWith("--max-body-bytes", "1000");
      const fields = ["host: gateway.test", `authorization: ${authorization}`, "content-type: application/json"];
      const chunk = `400\r\n${"x".repeat(1024)}\r\n`;
      for (const upload of [
        head(`POST ${path} HTTP/1.1`, ...fields, "content-length: 1001"),
        head(`POST ${path} HTTP/1.1`, ...fields, "content-length: 1001", "expect: 100-continue"),
        `${head(`POST ${path} HTTP/1.1`, ...fields, "transfer-encoding: chunked")}${chunk}`,
      ]) {
        const connection = (await RawConnection.open(service.gateway.port)).write(upload);
        const reply = await connection.reply();
        expect([reply.status, reply.headers.get("connection")]).toEqual([413, "close"]);
        expect(reply.body).toContain(isB(path) ? '"type":"request_too_large"' : '"code":"request_too_large"');
        connection.destroy();
      }
    },
  );

  test("the largest body of a key never raises the gateway's own limit, and does not affect other keys", async () => {
    const generous = await keyWith("--max-body-bytes", String(10 * MAX_BODY));
    expect((await service.gateway.post(CHAT, withText(CHAT, MAX_BODY), generous)).status).toBe(413);
    expect((await service.gateway.post(CHAT, withText(CHAT, MAX_BODY / 2), generous)).status).toBe(200);
    expect((await service.gateway.post(CHAT, withText(CHAT, MAX_BODY / 2))).status).toBe(200);
  });
});

describe("the longest answer of a key", () => {
  const room = () => service.lastRequest().maxOutputTokens;

  test.each([
    [CHAT, "max_tokens"],
    ["/v1/messages", "max_tokens"],
    ["/v1/responses", "max_output_tokens"],
  ] as const)(
    "the longest answer of a key is the most output of %s; a lower request is unchanged",
    async (path, field) => {
      const auth = await keyWith("--max-output-tokens", "50");
      expect((await service.post(path, { [field]: 20_000 }, auth)).status).toBe(200);
      expect(room()).toBe(50);
      expect((await service.post(path, { [field]: 20 }, auth)).status).toBe(200);
      expect(room()).toBe(20);
      if (path === "/v1/messages") return;
      expect((await service.post(path, {}, auth)).status).toBe(200);
      expect(room()).toBe(50);
    },
  );

  test("the longest answer of a key leaves part of the answer besides the reasoning", async () => {
    const auth = await keyWith("--max-output-tokens", "50");
    const thinking = { type: "enabled", budget_tokens: 10_000 };
    expect((await service.post("/v1/messages", { max_tokens: 20_000, thinking }, auth)).status).toBe(200);
    expect(service.lastRequest()).toMatchObject({ maxOutputTokens: 50, reasoning: { budgetTokens: 49 } });
  });
});

describe("the waiting requests of a key", () => {
  /** All three generate on the engine's only slot. */
  test.each([CHAT, "/v1/messages", "/v1/responses"] as const)(
    "the waiting requests of a key are bounded on %s, key by key",
    async (path) => {
      const { passed, open } = latch();
      service.play(async function* () {
        yield [started(), textStart(0), delta(0, "held ")];
        await passed;
        yield [blockEnd(0), finished()];
      });
      const auth = await keyWith("--queued", "1");
      const untilWaiting = (count: number) =>
        becomes(async () => {
          const metrics = await service.gateway.stats.registry.metrics();
          return metrics.includes(`svc_queue_depth{model="svc-qwen",class="default"} ${count}\n`);
        }, `${count} wait`);
      const runs = await service.post(path, { stream: true }, auth);
      const waits = service.post(path, {}, auth);
      await untilWaiting(1);
      const refused = await service.post(path, {}, auth);
      const message = isB(path)
        ? await expectErrorB(refused, 429, "rate_limit_error")
        : await expectErrorA(refused, 429, "rate_limit_exceeded", null);
      expect(message).toContain("requests of this key are waiting");
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
      const others = service.post(path);
      await untilWaiting(2);
      open();
      for (const response of [runs, await waits, await others]) {
        expect(response.status).toBe(200);
        await response.text();
      }
    },
  );
});
