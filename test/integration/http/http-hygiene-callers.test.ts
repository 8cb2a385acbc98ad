import { afterEach, describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import type { Format } from "../../../gateway/formats/format.ts";
import { ROUTES } from "../../../gateway/routes.ts";
import { becomes } from "../../support/becomes.ts";
import { CHECKED_FORMATS } from "../../support/checkers/legal-streams.ts";
import { framesOf } from "../../support/checkers/stream-text.ts";
import { fixedSentence } from "../../support/engine/scripted-backend.ts";
import { startEngine } from "../../support/engine/start-engine.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { CHAT, expectRefusal, HOST, JSON_TYPE, RawCaller } from "../../support/gateway/raw-caller.ts";
import { startGateway } from "../../support/gateway/start-gateway.ts";
import { head } from "../../support/http/raw-http.ts";
import { readBody } from "../../support/http/read-until.ts";
import { latch } from "../../support/latch.ts";
import { until } from "../../support/until.ts";

/*
 * Rows of the list of faults that the gateway itself has to answer, by number, byte by byte: keys, claims and running
 * answers.
 */

let release = latch();

afterEach(() => {
  release.open();
  release = latch();
});

const lines = (log: readonly string[]) => log.filter((line) => line.includes('"response_flags":"DC"'));

const caller = new RawCaller(async function* (request, signal) {
  if (request.sampling?.seed !== 7) return yield* fixedSentence(request, signal);
  yield [started(), textStart(0), delta(0, "first")];
  await release.passed;
  yield [delta(0, " last"), blockEnd(0), finished()];
});

describe("D: keys and fields that claim something", () => {
  const models = (...fields: string[]) => head("GET /v1/models HTTP/1.1", HOST, ...fields);

  test("D2 one valid key of two opens, whatever the other header holds, and a repeated header is 400", async () => {
    const bare = `x-api-key: ${caller.gateway.key}`;
    expect((await caller.sent(models(caller.auth, bare))).status).toBe(200);
    for (const other of ["x-api-key: evil", "x-api-key:", `x-api-key: ${caller.gateway.key}x`])
      expect((await caller.sent(models(caller.auth, other))).status).toBe(200);
    for (const other of ["authorization: Bearer evil", "authorization:", "authorization: Basic evil"])
      expect((await caller.sent(models(bare, other))).status).toBe(200);
    const neither = await caller.sent(models("authorization: Bearer evil", "x-api-key: evil"));
    expectRefusal(neither, 401);
    expect(neither.headers.get("x-should-retry")).toBe("false");
    expectRefusal(await caller.sent(models(caller.auth, caller.auth)), 400);
    expectRefusal(await caller.sent(models(bare, bare)), 400);
    expectRefusal(await caller.sent(models(caller.auth, "authorization: Bearer evil")), 400);
  });

  test("D6 fields of proxies and of our own give nothing", async () => {
    const claims = [
      "x-svc-internal: 1",
      "x-envoy-internal: true",
      "x-envoy-original-path: /admin",
      "x-forwarded-for: 127.0.0.1",
      "x-svc-priority: 100",
      "grpc-timeout: 1n",
      "x-http-method-override: DELETE",
    ];
    expectRefusal(await caller.sent(models(...claims)), 401);
    const reply = await caller.sent(caller.chat(...claims, `x-request-id: ${"evil".repeat(2_500)}`));
    expect(reply.status).toBe(200);
    expect(reply.headers.get("x-request-id")).toMatch(/^req_[0-9a-zA-Z]{24,}$/);
    expect(caller.engine.backend.requests.at(-1)?.priority).toBe(0);
  });

  test.each([
    ["/v1/chat/completions", "a"],
    ["/v1/messages", "b"],
  ] as const)("D9 an upload to %s without a key is answered and cut before it is read", async (path, envelope) => {
    const length = 32 * 1024 * 1024;
    const one = await caller.connection();
    one.write(head(`POST ${path} HTTP/1.1`, HOST, JSON_TYPE, `content-length: ${length}`));
    const taken = await one.pour(Buffer.alloc(64 * 1024, "x"), length);
    expectRefusal(await one.reply(), 401, envelope);
    await one.untilClosed();
    expect(taken).toBeLessThan(length);
  });
});

describe("E: running answers", () => {
  const slow = () => JSON.stringify({ ...JSON.parse(CHAT), seed: 7, stream: true });

  test.each([
    ["another request", () => caller.get("/v1/models")],
    ["bytes that are no request", () => "evil evil\r\n\r\n"],
  ])("E9 %s on the connection of a running stream does not get into it", async (_what, more) => {
    const one = await caller.connection();
    one.write(caller.post("/v1/chat/completions", slow()));
    await one.until("first");
    one.write(more());
    release.open();
    const stream = await one.reply();
    expect(stream.status).toBe(200);
    expect(stream.body.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(stream.body).not.toMatch(/HTTP|evil/);
    if (more().startsWith("GET")) expect((await one.reply()).body).toContain('"object":"list"');
    else await one.untilClosed();
    expect(one.unread).toBe("");
  });

  test.each(["HTTP/1.0", "HTTP/1.1"])(
    "E10 a stream over %s that is to close ends with the connection",
    async (version) => {
      release.open();
      const one = await caller.connection();
      const body = slow();
      const fields = [HOST, caller.auth, JSON_TYPE, "connection: close", `content-length: ${body.length}`];
      one.write(head(`POST /v1/chat/completions ${version}`, ...fields) + body);
      const reply = await one.reply();
      expect(reply.body.endsWith("data: [DONE]\n\n")).toBe(true);
      expect(reply.headers.has("transfer-encoding")).toBe(version === "HTTP/1.1");
      await one.untilClosed();
    },
  );

  test("E11 a stream forbids proxies to buffer or change it", async () => {
    release.open();
    const reply = await caller.sent(caller.post("/v1/chat/completions", slow()));
    expect(reply.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(reply.headers.get("x-accel-buffering")).toBe("no");
  });

  test("E2 a caller that leaves with several pending replies ends all of them, and each is logged", async () => {
    const { backend } = caller.engine;
    const { log, stats } = caller.gateway;
    const before = { asked: backend.requests.length, lines: lines(log).length };
    const held = JSON.stringify({ ...JSON.parse(CHAT), seed: 7, stream: true });
    const one = (await caller.connection()).write(caller.post("/v1/chat/completions", held).repeat(3));
    await until(() => backend.requests.length === before.asked + 3, "all three run");
    one.destroy();
    await until(() => lines(log).length === before.lines + 3, "each has its line");
    const active = async () => (await stats.upstream.active.get()).values.reduce((sum, { value }) => sum + value, 0);
    await becomes(async () => (await active()) === 0, "none runs on");
  });

  test("E3 no text of a caller reaches a header field", async () => {
    for (const path of ["/v1/models/x%0d%0aset-cookie:%20evil=1", "/v1/x%0d%0aset-cookie:%20evil=1"]) {
      const reply = await caller.sent(caller.get(path, "x-request-id: evil", "vendor-version: evil"));
      expectRefusal(reply, 404);
      expect([...reply.headers].join("\n")).not.toMatch(/evil|set-cookie/);
    }
  });

  test.each(CHECKED_FORMATS)("E12 a failure behind a sign of life ends $format.name in its error", async (checked) => {
    const fail = latch();
    const engine = await startEngine(async function* () {
      yield [started()];
      await fail.passed;
      throw new EngineError("INVALID_REQUEST", "evil");
    });
    const gateway = await startGateway([engine.address], { timeouts: { keepAliveIntervalMs: 20 } });
    try {
      const [variant] = checked.variants;
      const reply = await gateway.post(pathOf(checked.format), variant.body);
      expect(reply.status).toBe(200);
      const body = readBody(reply);
      await body.until((text) => text !== "");
      fail.open();
      const text = await body.toEnd();
      variant.check(framesOf(text));
      expect(text).toMatch(/^: keep-alive|"type":"(?:keepalive|ping)"/m);
      expect(text).toMatch(/"error":\{|"type":"response\.failed"/);
      expect(text).not.toContain("evil");
    } finally {
      await gateway.stop();
      await engine.stop();
    }
  });
});

function pathOf(format: Format): string {
  const route = ROUTES.find((spec) => spec.use === "generation" && spec.format === format);
  if (!route) throw new Error(`no route generates in the format ${format.name}`);
  return route.path;
}
