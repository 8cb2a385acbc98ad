import { describe, expect, test } from "vitest";
import { Utf8Holder } from "../../../engine/backends/llama/tokens/vocabulary.ts";
import { EngineError } from "../../../engine/errors.ts";
import { becomes } from "../../support/becomes.ts";
import { checkChat } from "../../support/checkers/legal-streams.ts";
import { framesOf } from "../../support/checkers/stream-text.ts";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { modelWrites } from "../../support/engine/model-writes.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../support/events/events.ts";
import { engineOf, gatewayOf, ownService } from "../../support/gateway/own-services.ts";
import { ERROR_FRAMES, serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { chatChunks, chatDeltas, joinedDeltas } from "../../support/http/chat-chunks.ts";
import { expectErrorA } from "../../support/http/error-reply.ts";
import { readBody } from "../../support/http/read-until.ts";
import { parseSse } from "../../support/http/sse-reader.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { latch } from "../../support/latch.ts";
import { preferred } from "../../support/preferred.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";

const CHAT = "/v1/chat/completions";

const service = serviceOfFile({
  gateway: { formats: ERROR_FRAMES, timeouts: { keepAliveIntervalMs: 20 } },
});

const tool = { type: "function", function: { name: "read", parameters: { type: "object", properties: {} } } };
const written = (path: string) => [
  "<tool_call>\n",
  `{"name": "read", `,
  `"arguments": {"path": "${path}"}}`,
  "\n</tool_call>\n",
];

test("case 61: an event stream without event lines that ends in [DONE]", async () => {
  const response = await service.post(CHAT, { stream: true });
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  checkChat(framesOf(await response.text()), false);
});

test("cases 62 and 66: the role is first, every chunk has the same head, and requested usage is last", async () => {
  const sse = await service.stream(CHAT, { stream_options: { include_usage: true } });
  checkChat(framesOf(sse), true);
  expect(chatChunks(sse).at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 19 } });
});

test("case 63: the deltas join to the folded reply's text, with characters split by the engine", async () => {
  const text = 'Grüße 🚀 "x"\n\ndata: [DONE]\n\n\u2028 漢字';
  const holder = new Utf8Holder<number>((bytes) => Buffer.from(bytes).toString("utf8"), []);
  const pieces = [...Buffer.from(text)].map((byte) => holder.push(byte));
  service.play(modelWrites(...pieces));
  const reply = await service.reply(CHAT);
  expect(valueAt(reply, "choices", 0, "message", "content")).toBe(text);
  expect(joinedDeltas(await service.stream(CHAT), "content")).toBe(text);
});

test("cases 64, 65, 67 and 68: two calls have indexes and fragments that join, one reason ends them, without usage or error", async () => {
  service.play(modelWrites(...written("a.ts"), ...written("b.ts")));
  const sse = await service.stream(CHAT, { tools: [tool] });
  checkChat(framesOf(sse), false);
  const joined = ["", ""];
  for (const delta of chatDeltas(sse)) {
    const fragment = valueAt(delta, "tool_calls", 0);
    if (fragment) joined[Number(valueAt(fragment, "index"))] += String(valueAt(fragment, "function", "arguments"));
  }
  expect(joined.map((text) => JSON.parse(text))).toEqual([{ path: "a.ts" }, { path: "b.ts" }]);
  expect(sse.match(/"finish_reason":"(\w+)"/g)).toEqual(['"finish_reason":"tool_calls"']);
  expect(sse).not.toMatch(/"(?:usage|error)":/);
});

test("case 69: comments bridge a silent engine", async () => {
  const go = latch();
  service.play(async function* () {
    yield [started()];
    await go.passed;
    yield [textStart(0), delta(0, "late"), blockEnd(0), finished()];
  });
  const body = readBody(await service.post(CHAT, { stream: true }));
  await body.until((text) => text.includes("\n: ") || text.startsWith(": "));
  go.open();
  expect(joinedDeltas(await body.toEnd(), "content")).toBe("late");
});

describe("an engine that is lost", () => {
  test("case 70: after the first delta ends in an error chunk and [DONE]", async () => {
    service.play(lostMidway);
    const events = parseSse(await service.stream(CHAT));
    expect(events.slice(-2).map(({ data }) => data)).toEqual([
      { error: { message: expect.any(String), type: "server_error", code: "server_error", param: null } },
      "[DONE]",
    ]);
  });

  test("case 71a: before the first delta is replaced by another, unseen", async () => {
    const lost = await engineOf(async function* () {
      yield [started(), textStart(0)];
      throw new EngineError("ENGINE_DOWN", "gone");
    });
    const well = await engineOf(() => [textAnswer("fine")]);
    const endpoints = preferred([lost.address, well.address]);
    const gateway = await gatewayOf([lost, well], { clusters: [{ model: MINIMAL[CHAT].model, ...endpoints }] });
    const response = await gateway.post(CHAT, { ...MINIMAL[CHAT], stream: true });
    const sse = await response.text();
    expect([response.status, joinedDeltas(sse, "content")]).toEqual([200, "fine"]);
    expect(sse).not.toContain('"error":');
    expect(lost.backend.requests).toHaveLength(1);
  });

  test("case 71b: with no other left is 503 with a retry delay", async () => {
    // Keep-alives commit the header soon on the service of the other cases.
    const { gateway } = await ownService(async function* () {
      yield [started()];
      throw new EngineError("ENGINE_DOWN", "gone");
    });
    for (const stream of [true, false]) {
      const response = await gateway.post(CHAT, { ...MINIMAL[CHAT], stream });
      const seconds = Number(response.headers.get("retry-after"));
      expect(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60).toBe(true);
      await expectErrorA(response, 503, "server_is_overloaded", null);
    }
  });
});

test("case 72: a client that closes its socket cancels the generation", async () => {
  const left = latch();
  service.play(async function* (_, signal) {
    signal.addEventListener("abort", left.open);
    yield [started(), textStart(0), delta(0, "first")];
    await new Promise(() => {});
  });
  const response = await service.post(CHAT, { stream: true });
  // On a busy machine the first bytes are a keep-alive.
  await becomes(async () => service.engine.backend.load().busySlots === 1, "the engine works");
  await response.body?.cancel();
  await left.passed;
});
