import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../support/events/events.ts";
import { engineOf, gatewayOf } from "../../support/gateway/own-services.ts";
import { endOf, textOf } from "../../support/http/answer-check.ts";
import { jsonPost } from "../../support/http/raw-http.ts";
import { readBody } from "../../support/http/read-until.ts";
import { latch } from "../../support/latch.ts";
import { preferred } from "../../support/preferred.ts";
import { until } from "../../support/until.ts";

const turn = [{ role: "user", content: "hi" }];
const FORMATS = [
  { path: "/v1/chat/completions", body: { model: "svc-qwen", messages: turn } },
  { path: "/v1/messages", body: { model: "svc-qwen", messages: turn, max_tokens: 64 } },
  { path: "/v1/responses", body: { model: "svc-qwen", input: "hi" } },
] as const;

const CUT = { formats: { brokenStream: "cut" } };

describe.each(FORMATS)("$path", ({ path, body }) => {
  test("a delta reaches the client before the next one exists", async () => {
    const second = latch();
    const gateway = await gatewayOf([
      await engineOf(async function* () {
        yield [started(), textStart(0), delta(0, "first")];
        await second.passed;
        yield [delta(0, " second"), blockEnd(0), finished()];
      }),
    ]);
    const response = await gateway.post(path, { ...body, stream: true });
    const answer = readBody(response);
    await answer.until((text) => text.includes("first"));
    expect(answer.text()).not.toContain("second");
    second.open();
    expect(textOf(path, await answer.toEnd())).toBe("first second");
  });

  test.each([true, false])("a client that leaves frees the engine's slot (stream %s)", async (stream) => {
    const begun = latch();
    const engine = await engineOf(async function* () {
      yield stream ? [started(), textStart(0), delta(0, "first")] : [started()];
      begun.open();
      await new Promise(() => {});
    });
    const gateway = await gatewayOf([engine]);
    const controller = new AbortController();
    const response = fetch(`${gateway.baseUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ ...body, stream }),
      signal: controller.signal,
    });
    if (stream) await ((await response).body as ReadableStream).getReader().read();
    await begun.passed;
    expect(engine.backend.load().busySlots).toBe(1);
    controller.abort();
    if (!stream) await expect(response).rejects.toThrow();
    await until(() => engine.backend.load().busySlots === 0, "no slot is taken");
    await until(() => gateway.clusters.endpoints.every(({ activeRequests }) => activeRequests === 0), "none is open");
  });

  test("an engine that is lost after the first delta cuts the stream, or fails it in responses", async () => {
    const engine = await engineOf(lostMidway);
    const gateway = await gatewayOf([engine], CUT);
    const { text, cut } = await readBody(await gateway.post(path, { ...body, stream: true })).toEndOrCut();
    const isCut = path !== "/v1/responses";
    expect({ text: textOf(path, text), cut }).toEqual({ text: "half", cut: isCut });
    expect(endOf(path, text).end === "truncated").toBe(isCut);
    const folded = await gateway.post(path, body);
    expect(folded.status).toBe(path === "/v1/messages" ? 529 : 503);
    await folded.text();
  });

  test("the status line does not wait for a silent engine; behind it a lost one is still replaced", async () => {
    for (const others of [1, 0]) {
      const lost = latch();
      const silent = await engineOf(async function* () {
        yield [started()];
        await lost.passed;
        throw new EngineError("ENGINE_DOWN", "gone");
      });
      const well = await engineOf(() => [textAnswer("fine")]);
      const addresses = [silent, well].slice(0, 1 + others).map(({ address }) => address);
      const gateway = await gatewayOf([silent, well], {
        clusters: [{ model: "svc-qwen", ...preferred(addresses) }],
        timeouts: { keepAliveIntervalMs: 20 },
      });
      const response = await gateway.post(path, { ...body, stream: true });
      expect(response.status).toBe(200);
      lost.open();
      const { text, cut } = await readBody(response).toEndOrCut();
      expect(text.includes("fine")).toBe(others === 1);
      expect(cut || text.includes(`"error":{`)).toBe(others === 0);
    }
  });
});

test.each([
  ["of HTTP/1.0", "1.0", []],
  ["with connection: close", "1.1", ["connection: close"]],
])(
  "a stream %s, whose end is that of its connection, gets the error frame instead of a cut",
  async (_, version, more) => {
    const gateway = await gatewayOf([await engineOf(lostMidway)], CUT);
    const socket = connect(gateway.port, "127.0.0.1");
    socket.write(jsonPost(FORMATS[0].path, gateway.key, { ...FORMATS[0].body, stream: true }, version, ...more));
    let text = "";
    for await (const piece of socket) text += String(piece);
    expect(text).toContain('"content":"half"');
    expect(text).toMatch(/"error":\{.*\n\ndata: \[DONE\]\n\n/);
  },
);

test("a failure that no retry helps gets the error frame, whatever brokenStream says", async () => {
  const engine = await engineOf(async function* () {
    yield [started(), textStart(0), delta(0, "half")];
    await new Promise(() => {});
  });
  const gateway = await gatewayOf([engine], { ...CUT, timeouts: { maxStreamDurationMs: 300 } });
  const response = await gateway.post(FORMATS[0].path, { ...FORMATS[0].body, stream: true });
  expect(await response.text()).toContain('"error":{');
});
