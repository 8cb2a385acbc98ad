import { afterEach, describe, expect, test } from "vitest";
import { fixedSentence, type Script } from "../../../engine/backends/scripted/scripted.ts";
import { EngineError, type ErrorReason } from "../../../engine/errors.ts";
import { updateKeyFile } from "../../../gateway/keys/key-file.ts";
import { parseKey } from "../../../gateway/keys/key-format.ts";
import type { KeyLimits, KeyQuota } from "../../../gateway/keys/key-record.ts";
import { becomes } from "../../support/becomes.ts";
import { type RunningEngine, startEngine } from "../../support/engine/start-engine.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../support/events/events.ts";
import { gate } from "../../support/gate.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { expectErrorA, expectErrorB } from "../../support/http/error-reply.ts";
import { readBody } from "../../support/http/read-until.ts";
import { MINIMAL, POST_PATHS, type PostPath } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const running: { stop(): Promise<void> }[] = [];

async function service(script: Script, overrides = {}): Promise<{ engine: RunningEngine; gateway: RunningGateway }> {
  const engine = await startEngine(script);
  running.push(engine);
  const gateway = await startGateway([engine.address], overrides);
  running.push(gateway);
  return { engine, gateway };
}

afterEach(async () => {
  for (const one of running.splice(0).reverse()) await one.stop();
});

type Auth = { readonly authorization: string };

/** Requests per minute that nobody reaches. */
let marker = 1_000_000;

/** Writes the limits into the key's record, as an operator does, and returns when the gateway goes by them. */
async function setLimits(gateway: RunningGateway, auth: Auth, limits: KeyLimits, quota: KeyQuota = {}): Promise<void> {
  const id = parseKey(auth.authorization.slice("Bearer ".length))?.id;
  // A limit that no earlier record had tells the new one from it.
  marker += 1;
  const rpm = limits.rpm ?? marker;
  const signal = new AbortController().signal;
  await updateKeyFile(
    gateway.keyFile,
    false,
    (set) => {
      const keys = set.keys.map((key) =>
        key.id === id ? { ...key, limits: { ...limits, rpm }, quota, revision: key.revision + 1 } : key,
      );
      return { set: { ...set, revision: set.revision + 1, keys }, value: undefined };
    },
    signal,
  );
  await becomes(async () => {
    const response = await gateway.get("/v1/models", auth);
    await response.text();
    return response.headers.get("x-ratelimit-limit-requests") === String(rpm);
  }, "the key is known");
}

/** A key of its own with these limits. */
async function keyWith(gateway: RunningGateway, limits: KeyLimits, quota: KeyQuota = {}): Promise<Auth> {
  const auth = { authorization: `Bearer ${await gateway.createKey("--name", "limited", "--models", "*")}` };
  await setLimits(gateway, auth, limits, quota);
  return auth;
}

/** The headers about limits, by name. */
function limitHeaders(response: Response): Record<string, string> {
  return Object.fromEntries([...response.headers].filter(([name]) => name.includes("ratelimit")));
}

async function statusOf(reply: Promise<Response>): Promise<number> {
  const response = await reply;
  // A stream whose engine is lost is cut.
  if (response.body) await readBody(response).toEndOrCut();
  return response.status;
}

const isB = (path: PostPath) => path.startsWith("/v1/messages");

describe("a key over its requests per minute", () => {
  test.each(POST_PATHS)("is refused on %s with the time to come back; another key is not", async (path) => {
    const { engine, gateway } = await service(fixedSentence);
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

  test("may still count tokens and see the models, and the log says why it was refused", async () => {
    const { gateway } = await service(fixedSentence);
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
    const { gateway } = await service(fixedSentence);
    const auth = await keyWith(gateway, { rpm: 1 });
    expect(await statusOf(gateway.post("/v1/responses", "not json", auth))).toBe(400);
    expect(await statusOf(gateway.post("/v1/responses", "not json", auth))).toBe(429);
  });
});

const counted = finished(undefined, { inputTokens: 90 });

/** A script that fails before anything is said. */
const failing = (reason: ErrorReason) => () => {
  throw new EngineError(reason, "gone");
};

describe("D10 what a request costs that the service failed", () => {
  const path = "/v1/chat/completions";

  test.each(["ENGINE_DOWN", "ENGINE_ERROR", "ENGINE_ABORTED", "PROTOCOL_VIOLATION"] as const)(
    "%s, which the request itself may have caused, counts as a request",
    async (reason) => {
      const { engine, gateway } = await service(failing(reason));
      for (const stream of [true, false]) {
        const auth = await keyWith(gateway, { rpm: 1 });
        const post = () => statusOf(gateway.post(path, { ...MINIMAL[path], stream }, auth));
        expect([await post(), await post()]).toEqual([503, 429]);
      }
      expect(engine.backend.requests).toHaveLength(2);
    },
  );

  test.each(["QUEUE_FULL", "DRAINING", "MODEL_LOADING"] as const)("%s costs nothing", async (reason) => {
    const { gateway } = await service(failing(reason));
    const auth = await keyWith(gateway, { rpm: 1 });
    for (const stream of [true, false, true])
      expect(await statusOf(gateway.post(path, { ...MINIMAL[path], stream }, auth))).toBe(503);
  });

  test("a node that falls silent over it keeps charged what it had counted, also of the day's quota", async () => {
    const { gateway } = await service(
      async function* () {
        yield [started({ inputTokens: 90 })];
        await new Promise(() => {});
      },
      { timeouts: { perTryIdleTimeoutMs: 100 }, retry: { requestOfDeath: { oneDeathMs: 10 } } },
    );
    const auth = await keyWith(gateway, {}, { tokensPerDay: 90 });
    expect(await statusOf(gateway.post(path, MINIMAL[path], auth))).toBe(503);
    const next = await gateway.post(path, MINIMAL[path], auth);
    expect(await next.json()).toMatchObject({ error: { code: "insufficient_quota" } });
  });

  test("a quota of the day pays for no token that nobody has worked on", async () => {
    const { gateway } = await service(failing("ENGINE_DOWN"));
    const auth = await keyWith(gateway, {}, { tokensPerDay: 1 });
    for (let i = 0; i < 3; i += 1) expect(await statusOf(gateway.post(path, MINIMAL[path], auth))).toBe(503);
  });

  test("a failure behind a sign of life is charged as one before it", async () => {
    const fail = gate();
    const { gateway } = await service(
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
    const { engine, gateway } = await service(fixedSentence);
    engine.backend.countTokens = async () => {
      throw new EngineError("ENGINE_ERROR", "gone");
    };
    const auth = await keyWith(gateway, { rpm: 1 });
    const count = "/v1/messages/count_tokens";
    const post = () => statusOf(gateway.post(count, MINIMAL[count], auth));
    expect([await post(), await post()]).toEqual([529, 429]);
  });
});

describe("what is not counted", () => {
  test("the one refusal that opens an agent's session", async () => {
    const { gateway } = await service(fixedSentence);
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
    const { gateway } = await service(script, { limits: { requestBurstSeconds: 60 } });
    const auth = await keyWith(gateway, { rpm: 2, itpm: 100 });
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
    const { gateway } = await service(fixedSentence);
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
    const { gateway } = await service(fixedSentence);
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
    const { gateway } = await service(fixedSentence, { limits: { headerPrefix: "vendor" } });
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

/** Resolves to how many places of the key's limits are taken. A node's slot is free a moment before them. */
async function taken(gateway: RunningGateway, auth: Auth): Promise<number | undefined> {
  const principal = gateway.keys.find(auth.authorization.slice("Bearer ".length));
  const places = principal && (await gateway.limiter.look(principal)).places;
  return places?.reduce((sum, place) => sum + place.taken, 0);
}

describe("generations at one time", () => {
  test.each([true, false])(
    "of 64 requests ten are admitted, and ten again when those left (stream %s)",
    async (stream) => {
      const { engine, gateway } = await service(async function* () {
        yield [started(), textStart(0), delta(0, "begun")];
        await new Promise(() => {});
      });
      const auth = await keyWith(gateway, { concurrency: 10 });
      const body = JSON.stringify({ ...MINIMAL["/v1/chat/completions"], stream });
      for (const round of [1, 2]) {
        const leave = new AbortController();
        const refused: Response[] = [];
        const others: Promise<unknown>[] = Array.from({ length: 64 }, async () => {
          const response = await fetch(`${gateway.baseUrl}/v1/chat/completions`, {
            method: "POST",
            headers: { ...auth, "content-type": "application/json" },
            body,
            signal: leave.signal,
          });
          if (response.status === 429) refused.push(response);
        });
        const over = Promise.allSettled(others);
        await until(
          () => refused.length === 54 && engine.backend.load().busySlots === 10,
          "ten run and the others are refused",
        );
        expect(engine.backend.requests).toHaveLength(10 * round);
        for (const response of refused) {
          expect(await response.json()).toMatchObject({ error: { code: "rate_limit_exceeded", type: "requests" } });
          expect(response.headers.get("retry-after")).toBe("1");
        }
        leave.abort();
        await over;
        await becomes(async () => (await taken(gateway, auth)) === 0, "no place is taken");
        await until(() => engine.backend.load().busySlots === 0, "no slot is taken");
      }
    },
  );

  test("another key is admitted while one has no place left", async () => {
    const go = gate();
    const { engine, gateway } = await service(async function* () {
      await go.passed;
      yield textAnswer("done");
    });
    const auth = await keyWith(gateway, { concurrency: 1 });
    const post = (headers = {}) => gateway.post("/v1/messages", MINIMAL["/v1/messages"], headers);
    const first = post(auth);
    await until(() => engine.backend.load().busySlots === 1, "a slot is taken");
    await expectErrorB(await post(auth), 429, "rate_limit_error");
    const other = post();
    await until(() => engine.backend.load().busySlots === 2, "two slots are taken");
    go.open();
    expect([await statusOf(first), await statusOf(other)]).toEqual([200, 200]);
    expect(await statusOf(post(auth))).toBe(200);
  });

  test("a place is free again after every way for a request to end", async () => {
    const { engine, gateway } = await service(async function* ({ sampling }) {
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
      // A caller hears of an end a moment before its place is free.
      await becomes(async () => (await post({})) === 200, "a place is free again");
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
  /** A service whose counts wait for `go`; `cluster` has settings of the one cluster. */
  async function countingService(overrides: object, cluster = {}) {
    const go = gate();
    const engine = await startEngine(fixedSentence);
    running.push(engine);
    const clusters = [{ model: "svc-qwen", endpoints: [{ address: engine.address }], ...cluster }];
    const gateway = await startGateway([engine.address], { clusters, ...overrides });
    running.push(gateway);
    let begun = 0;
    engine.backend.countTokens = async () => {
      begun += 1;
      await go.passed;
      return 7;
    };
    return { gateway, go, begun: () => begun };
  }

  test("of 20 three are let in, and three again afterwards; another key and generations are", async () => {
    const { gateway, go, begun } = await countingService({ limits: { countConcurrency: 3 } });
    const auth = await keyWith(gateway, {});
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

  test("of a model are bounded over all keys", async () => {
    const { gateway, go, begun } = await countingService({}, { circuitBreakers: { maxTokenCounts: 2 } });
    const counts = [gateway.post(count, MINIMAL[count]), gateway.post(count, MINIMAL[count])];
    await until(() => begun() === 2, "two run");
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

describe("tokens", () => {
  test("a stream that goes over the limit is not cut; the next request waits", async () => {
    const pieces = Array.from({ length: 3_000 }, (_, i) => `${i} `);
    const half = gate();
    const { gateway } = await service(async function* () {
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
    const { gateway } = await service(fixedSentence);
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
  const { gateway } = await service(fixedSentence, { limits: { requestBurstSeconds: 60 } });
  const auth = await keyWith(gateway, { rpm: 1 });
  const post = () => statusOf(gateway.post("/v1/responses", MINIMAL["/v1/responses"], auth));
  expect([await post(), await post()]).toEqual([200, 429]);
  await setLimits(gateway, auth, { rpm: 2 });
  expect([await post(), await post()]).toEqual([200, 429]);
});
