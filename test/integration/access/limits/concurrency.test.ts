import { describe, expect, test } from "vitest";
import { EngineError } from "../../../../engine/errors.ts";
import { MAX_COUNTS } from "../../../../gateway/upstream/token-counter.ts";
import { becomes } from "../../../support/becomes.ts";
import { fixedSentence } from "../../../support/engine/scripted-backend.ts";
import { blockEnd, delta, finished, started, textStart } from "../../../support/events/events.ts";
import { type Auth, keyWith } from "../../../support/gateway/limited-key.ts";
import { ownService } from "../../../support/gateway/own-services.ts";
import type { RunningGateway } from "../../../support/gateway/start-gateway.ts";
import { expectErrorA, expectErrorB } from "../../../support/http/error-reply.ts";
import { statusOf } from "../../../support/http/status-of.ts";
import { latch } from "../../../support/latch.ts";
import { MINIMAL, type PostPath } from "../../../support/requests/minimal-bodies.ts";
import { until } from "../../../support/until.ts";

/* Concurrent generations and counts of a key. */

const isB = (path: PostPath) => path.startsWith("/v1/messages");

/** Resolves to the number of taken permits of the key. The node's slot is freed slightly before them. */
async function taken(gateway: RunningGateway, auth: Auth): Promise<number | undefined> {
  const principal = gateway.keys.find(auth.authorization.slice("Bearer ".length));
  const permits = principal && (await gateway.limiter.look(principal)).permits;
  return permits?.reduce((sum, permit) => sum + permit.taken, 0);
}

describe("generations at one time", () => {
  test.each([true, false])(
    "of 64 requests ten are admitted, and ten again when those left (stream %s)",
    async (stream) => {
      const { engine, gateway } = await ownService(async function* () {
        yield [started(), textStart(0), delta(0, "begun")];
        await new Promise(() => {});
      });
      const auth = await keyWith(gateway, { concurrency: 10 });
      const body = JSON.stringify({ ...MINIMAL["/v1/chat/completions"], stream });
      for (const round of [1, 2]) {
        const leave = new AbortController();
        const refused: Response[] = [];
        // An unreferenced response is cancelled by the garbage collector.
        const admitted: Response[] = [];
        const others: Promise<unknown>[] = Array.from({ length: 64 }, async () => {
          const response = await fetch(`${gateway.baseUrl}/v1/chat/completions`, {
            method: "POST",
            headers: { ...auth, "content-type": "application/json" },
            body,
            signal: leave.signal,
          });
          (response.status === 429 ? refused : admitted).push(response);
        });
        const over = Promise.allSettled(others);
        await until(
          () => refused.length === 54 && engine.backend.load().busySlots === 10,
          "ten run and the others are refused",
        );
        expect(engine.backend.requests).toHaveLength(10 * round);
        expect(admitted).toHaveLength(stream ? 10 : 0);
        for (const response of refused) {
          expect(await response.json()).toMatchObject({ error: { code: "rate_limit_exceeded", type: "requests" } });
          expect(response.headers.get("retry-after")).toBe("1");
        }
        leave.abort();
        await over;
        await becomes(async () => (await taken(gateway, auth)) === 0, "no permit is taken");
        await until(() => engine.backend.load().busySlots === 0, "no slot is taken");
      }
    },
  );

  test("a permit is free again after every way for a request to end", async () => {
    const { engine, gateway } = await ownService(async function* ({ sampling }) {
      if (sampling?.seed === 1) throw new EngineError("ENGINE_DOWN", "gone");
      yield [started(), textStart(0), delta(0, "begun")];
      if (sampling?.seed === 2) throw new EngineError("ENGINE_DOWN", "gone");
      if (sampling?.seed === 3) await new Promise(() => {});
      yield [blockEnd(0), finished()];
    });
    const auth = await keyWith(gateway, { concurrency: 1, perModel: { "svc-qwen": { concurrency: 1 } } });
    const path = "/v1/chat/completions";
    const body = MINIMAL[path];
    for (const stream of [true, false]) {
      const post = (fields: object) => statusOf(gateway.post(path, { ...body, stream, ...fields }, auth));
      const statuses = [
        await post({}),
        await post({ seed: 1 }),
        await post({ seed: 2 }),
        await post({ messages: [] }),
        await post({ model: "svc-none" }),
        await statusOf(gateway.post(path, "{", auth)),
        await statusOf(gateway.post(path, body, { ...auth, "content-type": "text/plain" })),
      ];
      expect(statuses).toEqual([200, 503, stream ? 200 : 503, 400, 400, 400, 415]);
      // A caller receives the end of an answer slightly before its permit is freed.
      await becomes(async () => (await post({})) === 200, "a permit is free again");
      const leave = new AbortController();
      const left = fetch(`${gateway.baseUrl}${path}`, {
        method: "POST",
        headers: { ...auth, "content-type": "application/json" },
        body: JSON.stringify({ ...body, stream, seed: 3 }),
        signal: leave.signal,
      });
      await until(() => engine.backend.load().busySlots === 1, "a slot is taken");
      expect(await post({})).toBe(429);
      leave.abort();
      await Promise.allSettled([left.then((response) => response.text())]);
      await becomes(async () => (await post({})) === 200, "a request is let in again");
    }
  });
});

const COUNTS = ["/v1/messages/count_tokens", "/v1/responses/input_tokens"] as const;

describe.each(COUNTS)("D11 token counts at one time on %s", (count) => {
  /** A service whose counts wait for `go`; `cluster` has settings of its cluster. */
  async function countingService(overrides: object, cluster = {}) {
    const go = latch();
    const { engine, gateway } = await ownService(fixedSentence, ({ address }) => ({
      clusters: [{ model: "svc-qwen", endpoints: [{ address }], ...cluster }],
      ...overrides,
    }));
    let begun = 0;
    engine.backend.countTokens = async () => {
      begun += 1;
      await go.passed;
      return 7;
    };
    return { gateway, go, begun: () => begun };
  }

  test("of 20 token counts at one time three are let in, and three again afterwards; another key and generations are", async () => {
    const { gateway, go, begun } = await countingService({});
    const auth = await keyWith(gateway, { countConcurrency: 3 });
    const refused: Response[] = [];
    const post = async () => {
      const response = await gateway.post(count, MINIMAL[count], auth);
      if (response.status === 429) refused.push(response);
      return response.status;
    };
    const all = Promise.all(Array.from({ length: 20 }, post));
    await until(() => refused.length === 17 && begun() === 3, "three run and the others are refused");
    const [one] = refused;
    expect(one?.headers.get("retry-after")).toBe("1");
    const message = isB(count)
      ? await expectErrorB(one as Response, 429, "rate_limit_error")
      : await expectErrorA(one as Response, 429, "rate_limit_exceeded", null);
    expect(message).toContain("concurrent token counts: limit 3");
    expect(await statusOf(gateway.post("/v1/messages", MINIMAL["/v1/messages"], auth))).toBe(200);
    const other = gateway.post(count, MINIMAL[count]);
    await until(() => begun() === 4, "another key's count runs");
    go.open();
    expect((await all).filter((status) => status === 200)).toHaveLength(3);
    expect(await statusOf(other)).toBe(200);
    expect(await post()).toBe(200);
  });

  test("token counts at one time of a model are bounded over all keys", async () => {
    const { gateway, go, begun } = await countingService({});
    const keys = await Promise.all(Array.from({ length: 8 }, () => keyWith(gateway, {})));
    const counts = Array.from({ length: MAX_COUNTS }, (_, at) =>
      gateway.post(count, MINIMAL[count], keys[at % keys.length]),
    );
    await until(() => begun() === MAX_COUNTS, "all run");
    const refused = await gateway.post(count, MINIMAL[count]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    await (isB(count)
      ? expectErrorB(refused, 529, "overloaded_error")
      : expectErrorA(refused, 503, "server_is_overloaded", null));
    await until(() => gateway.log.some((line) => line.includes('"detail":"upstream_count_overflow"')), "it is logged");
    go.open();
    for (const reply of counts) expect(await statusOf(reply)).toBe(200);
    expect(await statusOf(gateway.post(count, MINIMAL[count]))).toBe(200);
  });
});
