import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { becomes } from "../../support/becomes.ts";
import {
  blockEnd,
  delta,
  finished,
  started,
  textAnswer,
  textStart,
  toolCallStart,
} from "../../support/events/events.ts";
import { serviceOfFile, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { type Answer, FrameClient, upgradeReply } from "../../support/http/frame-client.ts";
import { latch } from "../../support/latch.ts";
import { keyCommand } from "../../support/processes/key-command.ts";

/* Responses over WebSocket, with the rules of the public API. */

const MAX_BODY = 262_144;
const service = serviceOfFile({ gateway: { maxBodyBytes: MAX_BODY } });
const MODEL = "svc-qwen";

async function open(headers: Readonly<Record<string, string>> = {}, key = service.gateway.key): Promise<FrameClient> {
  const client = await FrameClient.open({ port: service.gateway.port, key }, headers);
  onTestFinished(() => client.ws.terminate());
  return client;
}

const user = (text: string) => ({ type: "message", role: "user", content: [{ type: "input_text", text }] });
const say = (text: string, more: object = {}) => ({ model: MODEL, store: false, input: [user(text)], ...more });
const output = (call_id: string, text = "5") => ({ type: "function_call_output", call_id, output: text });
const metric = async (name: string) =>
  (await service.gateway.stats.registry.getSingleMetricAsString(name))
    .split("\n")
    .filter((line) => !line.startsWith("#"));
const lines = () =>
  service.gateway.log.map((line) => JSON.parse(line)).filter(({ msg, transport }) => msg === "request" && transport);

function callThenText(): void {
  service.play((request) =>
    request.messages.at(-1)?.parts[0]?.kind?.$case === "toolResult"
      ? [textAnswer("It is 5.")]
      : [
          [
            started(),
            toolCallStart(0, "add", "call_a"),
            delta(0, '{"a":2}'),
            blockEnd(0),
            finished(FinishReason.TOOL_CALLS),
          ],
        ],
  );
}

function hold(): () => void {
  const { passed, open: release } = latch();
  service.play(async function* () {
    yield [started(), textStart(0), delta(0, "held ")];
    await passed;
    yield [delta(0, "end"), blockEnd(0), finished()];
  });
  return release;
}

describe("the cases of Open Responses", () => {
  test("websocket-response", async () => {
    const client = await open();
    client.send({ type: "response.create", ...say("Hi.") });
    const events = await client.answer();
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
    expect(events.map(({ type }) => type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    expect(events.at(-1)?.response).toMatchObject({ status: "completed", output_text: "Hello.", store: false });
  });

  test("websocket-sequential-responses", async () => {
    const client = await open();
    const first = await client.ask(say("One."));
    const second = await client.ask(say("Two."));
    expect([first.status, second.status]).toEqual(["completed", "completed"]);
    expect(first.id).not.toBe(second.id);
    expect(service.lastRequest().messages).toHaveLength(1);
  });

  test("websocket-continuation", async () => {
    callThenText();
    const client = await open();
    const tools = [{ type: "function", name: "add", parameters: { type: "object" } }];
    const first = await client.ask(say("Add.", { tools }));
    expect(first.output[0]).toMatchObject({ type: "function_call", name: "add" });
    const callId = String(first.output[0]?.call_id);
    const second = await client.ask({ model: MODEL, tools, previous_response_id: first.id, input: [output(callId)] });
    expect(second).toMatchObject({ output_text: "It is 5.", previous_response_id: first.id });
    expect(service.lastRequest().messages).toHaveLength(3);
    const third = await client.ask({ model: MODEL, tools, previous_response_id: second.id, input: "And now?" });
    expect(third.status).toBe("completed");
    expect(service.lastRequest().messages).toHaveLength(5);
  });

  test("websocket-reconnect-store-false-recovery", async () => {
    const first = await open();
    const { id, output: items } = await first.ask(say("Hi."));
    await first.close();
    const second = await open();
    const lost = await second.ask({ model: MODEL, previous_response_id: id, input: [user("Go on.")] });
    expect(lost).toMatchObject({ status: 400, error: { code: "previous_response_not_found" } });
    const whole = await second.ask({ model: MODEL, input: [user("Hi."), ...items, user("Go on.")] });
    expect(whole.status).toBe("completed");
  });

  test("websocket-previous-response-not-found", async () => {
    const [own, other] = [await open(), await open()];
    const { id } = await other.ask(say("Hi."));
    const never = await own.ask(say("Go on.", { previous_response_id: "resp_never" }));
    const foreign = await own.ask(say("Go on.", { previous_response_id: id }));
    expect(never).toMatchObject({
      type: "error",
      status: 400,
      error: { type: "invalid_request_error", code: "previous_response_not_found", param: "previous_response_id" },
    });
    expect(foreign.error).toEqual(never.error);
    expect((await own.ask(say("Hi."))).status).toBe("completed");
  });

  test("websocket-failed-continuation-evicts-cache", async () => {
    const client = await open();
    const { id } = await client.ask(say("Hi."));
    const failed = await client.ask({ model: MODEL, previous_response_id: id, input: [output("call_unknown")] });
    expect(failed).toMatchObject({ status: 400, error: { code: "invalid_value", param: "input[0].call_id" } });
    expect(failed.error?.message).toContain("'input[0].call_id'");
    const evicted = await client.ask(say("Go on.", { previous_response_id: id }));
    expect(evicted.error?.code).toBe("previous_response_not_found");
  });

  test("websocket-compact-new-chain", async () => {
    const client = await open();
    await client.ask(say("Hi."));
    const compacted = await client.ask({ model: MODEL, input: [user("Hi."), { type: "compaction_trigger" }] });
    const [item] = compacted.output;
    expect(item?.type).toBe("compaction");
    const next = await client.ask({ model: MODEL, input: [item, user("Go on.")] });
    expect(next.status).toBe("completed");
    const more = await client.ask(say("And?", { previous_response_id: next.id }));
    expect(more.status).toBe("completed");
    expect(service.lastRequest().messages).toHaveLength(4);
  });
});

describe("the upgrade", () => {
  const target = () => ({ port: service.gateway.port, key: service.gateway.key });

  test("the upgrade has a request id, and names no model", async () => {
    const { status, headers } = await upgradeReply(target());
    expect(status).toBe(101);
    expect(headers["x-request-id"]).toMatch(/^req_/);
    expect(headers["sec-websocket-extensions"]).toBeUndefined();
    expect(Object.keys(headers)).not.toContain("openai-model");
  });

  test("the upgrade without a valid key is 401 as JSON, and logged", async () => {
    const { status, headers, text } = await upgradeReply({ ...target(), key: "wrong" });
    expect([status, headers["www-authenticate"]]).toEqual([401, "Bearer"]);
    expect(JSON.parse(text)).toMatchObject({ error: { code: "invalid_api_key" } });
    await becomes(
      async () => lines().some(({ code, detail }) => code === 401 && detail === "api_key_invalid"),
      "logged",
    );
  });

  test("the upgrade of Codex is 426 with the words of the refusal: it repeats any other for seconds, and would not show it", async () => {
    const codex = { "user-agent": "codex_exec/0.171.0" };
    for (const [key, path, words] of [
      ["wrong", "/v1/responses", "Incorrect API key provided"],
      [service.gateway.key, "/responses", "Unknown request URL"],
    ] as const) {
      const { status, headers, text } = await upgradeReply({ ...target(), key }, codex, path);
      expect([status, headers.upgrade]).toEqual([426, "HTTP/1.1"]);
      expect(JSON.parse(text)).toMatchObject({ error: { code: "upgrade_required" } });
      expect(text).toContain(words);
    }
  });

  test("A11 elsewhere, to another protocol or with a body is answered as plain HTTP", async () => {
    for (const path of ["/v1/chat/completions", "/v1/messages", "/v1/responses/compact"]) {
      const { status, text } = await upgradeReply(target(), {}, path);
      expect([status, text.includes("upgrade_required") || text.includes("invalid_request_error")]).toEqual([
        426,
        true,
      ]);
    }
    expect((await upgradeReply(target(), {}, "/v1/models")).status).toBe(200);
    expect((await upgradeReply(target(), {}, "/v1/evil")).status).toBe(404);
    expect((await upgradeReply(target(), { "content-length": "0" })).status).toBe(426);
    const handshake = { connection: "upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
    const authorization = `Bearer ${service.gateway.key}`;
    const keyless = request(`${service.gateway.baseUrl}/v1/responses`, {
      headers: { ...handshake, authorization },
    }).end();
    expect(((await once(keyless, "response")) as [IncomingMessage])[0].statusCode).toBe(426);
  });

  test("the upgrade of one key beyond 32, and in a drain, is 426", async () => {
    const key = await service.createKey();
    const sockets = await Promise.all(Array.from({ length: 32 }, () => open({}, key)));
    const { status, headers, text } = await upgradeReply({ ...target(), key });
    expect([status, headers.upgrade]).toEqual([426, "HTTP/1.1"]);
    expect(JSON.parse(text)).toMatchObject({ error: { code: "upgrade_required" } });
    expect((await upgradeReply(target())).status).toBe(101);
    await sockets[0]?.close();
    expect((await upgradeReply({ ...target(), key })).status).toBe(101);
  });
});

describe("frames", () => {
  test("requests in frames are requests of their own: record, log line, limits and metrics", async () => {
    const client = await open({ "user-agent": "codex_exec/0.171.0" });
    const before = lines().length;
    const { id } = await client.ask(say("Hi.", { stream: true, background: true, stream_options: { other: 1 } }));
    await client.ask(say("Go on.", { previous_response_id: id }));
    await client.ask({ model: "none", input: "Hi." });
    await becomes(async () => lines().length >= before + 3, "three lines");
    const [whole, continued, refused] = lines().slice(before);
    expect(whole).toMatchObject({
      transport: "websocket",
      code: 200,
      stream: true,
      model: MODEL,
      end_reason: "complete",
    });
    expect(whole).not.toHaveProperty("continued");
    expect(continued).toMatchObject({ continued: true, code: 200, ua_family: "codex" });
    expect(refused).toMatchObject({ code: 400, detail: "unknown_model" });
    expect(new Set([whole, continued, refused].map((line) => line?.request_id)).size).toBe(3);
    const counted = await metric("svc_websocket_frames_total");
    expect(counted.find((line) => line.includes('"continued"'))).toMatch(/ [1-9]/);
  });

  test("frames that cannot be read get an error in band, and the socket stays", async () => {
    const client = await open();
    const refusals: unknown[] = [];
    for (const frame of [
      "{",
      "[1]",
      '{"a":1}',
      '{"type":"response.cancel"}',
      '{"type":"response.create"}',
      Buffer.from([1]),
    ]) {
      client.send(frame);
      const [error] = await client.answer();
      refusals.push([error?.status, (error?.error as Answer["error"])?.code]);
    }
    expect(refusals).toEqual([
      [400, "invalid_json"],
      [400, "bad_request"],
      [400, "missing_required_parameter"],
      [400, "invalid_value"],
      [400, "missing_required_parameter"],
      [400, "bad_request"],
    ]);
    expect((await client.ask({ ...say("Hi."), kept_items: [] })).error?.code).toBe("unknown_parameter");
    expect((await client.ask({ ...say("Hi."), store: true })).error?.code).toBe("unsupported_value");
    client.send({ type: "response.steer", previous_response_id: "resp_1", input: [] });
    client.send({ type: "response.processed", response_id: "resp_1" });
    expect((await client.ask(say("Hi."))).status).toBe("completed");
  });

  test("larger than the limit end the socket with 1009", async () => {
    const client = await open();
    client.send(say("x".repeat(MAX_BODY)));
    expect(await client.closed).toBe(1009);
  });

  test("A18 beyond eight that wait get 429, and those that wait are answered in order", async () => {
    const release = hold();
    const client = await open();
    for (let at = 0; at < 11; at += 1) client.send({ type: "response.create", ...say(`${at}`) });
    const refused = [await client.answer(), await client.answer()].map(([error]) => error);
    expect(refused).toMatchObject([
      { status: 429, error: { code: "rate_limit_exceeded" }, headers: { "retry-after": "1" } },
      { status: 429 },
    ]);
    release();
    for (let at = 0; at < 9; at += 1) expect((await client.answer()).at(-1)?.type).toBe("response.completed");
  });

  test("frames of a revoked key get 401, and the socket closes with 1008", async () => {
    const key = await service.createKey("--name", "leaver", "--models", "all");
    const client = await open({}, key);
    expect((await client.ask(say("Hi."))).status).toBe("completed");
    await keyCommand(service.gateway.keyFile, "revoke", service.gateway.keys.find(key)?.keyId ?? "");
    await becomes(async () => service.gateway.keys.find(key) === undefined, "the key has ended");
    const refused = await client.ask(say("Hi."));
    expect(refused).toMatchObject({ status: 401, error: { code: "invalid_api_key" } });
    expect(await client.closed).toBe(1008);
  });

  test("frames beyond the key's limits get 429 with the time to wait", async () => {
    const client = await open({}, await service.createKey("--name", "slow", "--models", "all", "--rpm", "1"));
    expect((await client.ask(say("Hi."))).status).toBe("completed");
    const refused = await client.ask(say("Hi."));
    expect(refused).toMatchObject({ status: 429, headers: { "retry-after": expect.stringMatching(/^\d+$/) } });
  });

  test("frames name the setting of the agent in the refusal of an unknown model", async () => {
    const client = await open({ "user-agent": "codex_exec/0.171.0" });
    const refused = await client.ask({ ...say("Hi."), model: "gpt-6.2-sol" });
    expect(refused).toMatchObject({ error: { message: expect.stringMatching(/does not exist.*Set model in/) } });
  });

  test("frames without an answer wanted give an id to continue from", async () => {
    const client = await open();
    const empty = await client.ask({ model: MODEL, generate: false, input: [] });
    expect(empty).toMatchObject({ status: "completed", output: [], usage: { output_tokens: 0 } });
    const calls = service.engine.backend.requests.length;
    service.play(() => [[started(), finished()]]);
    const full = await client.ask(say("You are terse.", { generate: false, previous_response_id: empty.id }));
    expect(full).toMatchObject({ status: "completed", output: [] });
    // The engine reads the prompt ahead.
    expect(service.lastRequest()).toMatchObject({ maxOutputTokens: 0, messages: [{}] });
    service.play(() => [textAnswer("Hello.")]);
    const next = await client.ask(say("Hi.", { previous_response_id: full.id }));
    expect(next.status).toBe("completed");
    expect(service.engine.backend.requests.length).toBe(calls + 2);
    expect(service.lastRequest().messages).toHaveLength(2);
  });

  test("frames without an answer wanted do not fail with their engine", async () => {
    const client = await open();
    service.play(() => {
      throw new EngineError("INVALID_REQUEST", "no user");
    });
    const prepared = await client.ask(say("Hi.", { generate: false }));
    expect(prepared).toMatchObject({ status: "completed", output: [] });
    service.play(() => [textAnswer("Hello.")]);
    const next = await client.ask(say("Go on.", { previous_response_id: prepared.id }));
    expect(next.status).toBe("completed");
    expect(service.lastRequest().messages).toHaveLength(2);
  });

  test("frames may come in pieces with pings between them", async () => {
    const client = await open();
    const frame = Buffer.from(JSON.stringify({ type: "response.create", ...say("日本語 ".repeat(200)) }));
    for (let at = 0; at < frame.length; ) {
      const next = Math.min(frame.length, at + 1 + ((at * 7) % 301));
      client.ws.send(frame.subarray(at, next), { binary: false, fin: next === frame.length });
      client.ws.ping();
      at = next;
    }
    expect((await client.answer()).at(-1)?.type).toBe("response.completed");
    expect(service.lastRequest().messages[0]?.parts[0]?.kind).toMatchObject({ value: { text: "日本語 ".repeat(200) } });
    client.ws.send(Buffer.from([0x22, 0xff, 0x22]), { binary: false });
    expect((await client.answer())[0]).toMatchObject({ error: { code: "invalid_json" } });
  });

  test("frames reach the engine as the same conversation by HTTP does", async () => {
    const client = await open();
    const head = { model: MODEL, instructions: "Be terse.", prompt_cache_key: "k", tools: [], temperature: 0.5 };
    const items: object[] = [];
    let previous: string | undefined;
    for (const text of ["One.", "Two.", "Three.", "Four."]) {
      // The digests of all messages change with the instructions.
      const own = { ...head, ...(text === "Three." && { instructions: "Be long." }) };
      const frame = { ...own, input: [user(text)], ...(previous && { previous_response_id: previous }) };
      const answered = await client.ask(frame);
      const { requestId: _socket, ...bySocket } = { ...service.lastRequest(), lease: false };
      items.push(user(text));
      await service.stream("/v1/responses", { ...own, input: items });
      const { requestId: _http, ...byHttp } = service.lastRequest();
      expect(bySocket).toEqual(byHttp);
      items.push(...answered.output);
      previous = answered.id;
    }
  });

  test("frames answer what an earlier one has prepared, and for another model ask for the whole", async () => {
    const client = await open();
    service.play(() => [[started(), finished()]]);
    const { id } = await client.ask(say("Hi.", { generate: false }));
    service.play(() => [textAnswer("Hello.")]);
    const answered = await client.ask({ model: MODEL, previous_response_id: id, input: [] });
    expect(answered.status).toBe("completed");
    expect(service.lastRequest().messages).toHaveLength(1);
    const other = await client.ask(say("Go on.", { model: "svc-glm53", previous_response_id: answered.id }));
    expect(other.error?.code).toBe("previous_response_not_found");
  });

  test("frames take the turn's own headers from client_metadata", async () => {
    const client = await open({ traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-00` });
    const traceparent = `00-${"c".repeat(32)}-${"d".repeat(16)}-00`;
    await client.ask(say("Hi.", { client_metadata: { ws_request_header_traceparent: traceparent } }));
    await client.ask(say("Hi."));
    const [own, without] = lines().slice(-2);
    expect(own?.trace_id).toBe("c".repeat(32));
    expect(without?.trace_id).not.toBe("a".repeat(32));
  });
});

describe("lanes", () => {
  test("lanes run at the same time, echo their name, keep their own response, and can be forked", async () => {
    const client = await open();
    const { id } = await client.ask(say("Root."));
    const release = hold();
    for (const stream_id of ["a", "b"])
      client.send({ type: "response.create", ...say(stream_id, { stream_id, previous_response_id: id }) });
    await becomes(
      async () => client.events.filter(({ type }) => type === "response.output_text.delta").length === 2,
      "both",
    );
    release();
    const [a, b] = [await client.answer("a"), await client.answer("b")];
    expect(a.every(({ stream_id }) => stream_id === "a")).toBe(true);
    expect(b.map(({ sequence_number }) => sequence_number)).toEqual(b.map((_, at) => at));
    // A failed fork leaves the response that it named.
    client.send({ type: "response.create", ...say("", { stream_id: "c", previous_response_id: id, temperature: 9 }) });
    expect((await client.answer("c")).at(-1)?.type).toBe("error");
    expect((await client.ask(say("Main.", { previous_response_id: id }))).status).toBe("completed");
  });

  test("lanes have names of a closed form, of which a socket has 32", async () => {
    const client = await open();
    client.send({ type: "response.create", ...say("Hi.", { stream_id: "a b" }) });
    expect((await client.answer())[0]).toMatchObject({ error: { code: "invalid_stream_id", param: "stream_id" } });
    for (let at = 0; at < 33; at += 1) {
      client.send({ type: "response.create", ...say("Hi.", { stream_id: `s${at}` }) });
      const last = (await client.answer(`s${at}`)).at(-1);
      if (at < 32) expect(last?.type).toBe("response.completed");
      else expect(last).toMatchObject({ error: { code: "websocket_stream_limit_reached" } });
    }
  });
});

describe("the end of an answer", () => {
  test("a client that leaves cancels it", async () => {
    hold();
    const client = await open();
    client.send({ type: "response.create", ...say("Hi.") });
    await becomes(async () => client.events.some(({ type }) => type === "response.output_text.delta"), "a delta");
    const before = lines().length;
    client.ws.terminate();
    await becomes(async () => lines().length > before, "a line");
    expect(lines()[before]).toMatchObject({ end_reason: "client_closed", response_flags: "DC" });
  });

  test("a key that is ended with --kill ends it, and its socket with 1008", async () => {
    hold();
    const key = await service.createKey("--name", "killed", "--models", "all");
    const client = await open({}, key);
    client.send({ type: "response.create", ...say("Hi.") });
    await becomes(async () => client.events.some(({ type }) => type === "response.output_text.delta"), "a delta");
    await keyCommand(service.gateway.keyFile, "revoke", service.gateway.keys.find(key)?.keyId ?? "", "--kill");
    expect((await client.answer()).at(-1)?.type).toBe("response.failed");
    expect(await client.closed).toBe(1008);
  });

  test("an engine that is lost ends it with response.failed, and the conversation is not continued", async () => {
    const client = await open();
    const { id } = await client.ask(say("Hi."));
    service.play(async function* () {
      yield [started(), textStart(0), delta(0, "half")];
      throw new EngineError("ENGINE_ERROR", "lost");
    });
    const failed = await client.ask(say("Go on.", { previous_response_id: id }));
    expect(failed).toMatchObject({ status: "failed", error: { code: "server_error" } });
    service.play(() => [textAnswer("Hello.")]);
    const evicted = await client.ask(say("Go on.", { previous_response_id: id }));
    expect(evicted.error?.code).toBe("previous_response_not_found");
  });
});

describe("with a service of its own", () => {
  async function serviceWith(gateway: object) {
    const own = await startScriptedService({ gateway: { ...gateway } });
    onTestFinished(() => own.stop());
    const connect = async () => {
      const client = await FrameClient.open(own.gateway);
      onTestFinished(() => client.ws.terminate());
      return client;
    };
    return { own, connect };
  }

  test("a drain closes idle sockets with 1001, and busy ones behind their answer", async () => {
    const { own, connect } = await serviceWith({});
    const { passed, open: release } = latch();
    own.play(async function* () {
      yield [started(), textStart(0), delta(0, "held ")];
      await passed;
      yield [delta(0, "end"), blockEnd(0), finished()];
    });
    const [idle, busy] = [await connect(), await connect()];
    busy.send({ type: "response.create", ...say("Hi.") });
    await becomes(async () => busy.events.some(({ type }) => type.endsWith("delta")), "a delta");
    own.gateway.webSockets.drain(0);
    const drained = own.gateway.sockets.drain();
    expect(await idle.closed).toBe(1001);
    expect((await upgradeReply(own.gateway)).status).toBe(426);
    busy.send({ type: "response.create", ...say("More.") });
    release();
    const answered = await busy.answer();
    expect(answered.at(-1)?.response).toMatchObject({ status: "completed", output_text: "held end" });
    expect((await busy.answer())[0]).toMatchObject({ error: { code: "websocket_connection_limit_reached" } });
    expect(await busy.closed).toBe(1001);
    await drained;
    expect(own.gateway.webSockets.open).toBe(0);
  });

  test("signs of life come while an answer waits", async () => {
    const { own, connect } = await serviceWith({ timeouts: { keepAliveIntervalMs: 20 } });
    const { passed, open: release } = latch();
    own.play(async function* () {
      yield [started()];
      await passed;
      yield [textStart(0), delta(0, "end"), blockEnd(0), finished()];
    });
    const client = await connect();
    client.send({ type: "response.create", ...say("Hi.") });
    await becomes(async () => client.events.filter(({ type }) => type === "keepalive").length >= 2, "signs of life");
    release();
    const events = await client.answer();
    expect(events[0]?.type).toBe("response.created");
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
  });

  test("A18 a client that reads nothing is cut, and its engine freed", async () => {
    const { own, connect } = await serviceWith({ timeouts: { requestTimeoutMs: 1_000 } });
    own.play(async function* (_request, signal) {
      yield [started(), textStart(0)];
      while (!signal.aborted) {
        yield [delta(0, "x".repeat(65_536))];
        await new Promise((resolve) => setImmediate(resolve));
      }
    });
    const client = await connect();
    client.ws.pause();
    client.send({ type: "response.create", ...say("Hi.") });
    const ended = () => own.gateway.log.some((line) => line.includes('"socket_end":"slow"'));
    await becomes(async () => ended(), "the socket is cut");
    await becomes(async () => own.engine.backend.load().busySlots === 0, "the engine is free");
    expect(own.gateway.log.some((line) => line.includes('"slow_reader"'))).toBe(true);
  });

  test("A18 a flood whose replies are not read holds its own socket back, and no other", async () => {
    const { own, connect } = await serviceWith({});
    const [hostile, honest] = [await connect(), await connect()];
    hostile.ws.pause();
    const raw = Reflect.get(hostile.ws, "_socket") as Socket;
    const held = async () => {
      if (raw.writableLength === 0) for (let at = 0; at < 20_000; at += 1) hostile.send('{"type":"response.steer"}');
      const before = raw.writableLength;
      expect((await honest.ask(say("Hi."))).status).toBe("completed");
      return before > 0 && raw.writableLength === before;
    };
    await becomes(held, "the flood waits at its sender");
    const memory = Number(
      (await own.gateway.stats.registry.getSingleMetricAsString("svc_inflight_body_bytes")).split(" ").at(-1),
    );
    expect(memory).toBeLessThan(4 * 1024 * 1024);
  });

  test("conversations without room are lost, and their sockets stay", async () => {
    const { own, connect } = await serviceWith({
      maxBodyBytes: 100_000,
      overloadManager: { resourceMonitors: { inflightBodyBytes: { maxBytes: 300_000 } } },
    });
    const sockets = [await connect(), await connect(), await connect(), await connect()];
    const ids: string[] = [];
    for (const client of sockets) ids.push((await client.ask(say("x".repeat(60_000)))).id);
    const next = [];
    for (const [at, client] of sockets.entries())
      next.push(await client.ask(say("Go on.", { previous_response_id: ids[at] })));
    expect(next.map(({ error }) => error?.code)).toContain("previous_response_not_found");
    expect(next.at(-1)?.status).toBe("completed");
    for (const client of sockets) expect((await client.ask(say("Hi."))).status).toBe("completed");
    for (const client of sockets) await client.close();
    const kept = () => own.gateway.stats.registry.getSingleMetricAsString("svc_websocket_kept_bytes");
    await becomes(async () => (await kept()).endsWith(" 0"), "nothing is kept behind closed sockets");
  });

  test("bodies that exceed the memory end their socket with 1013", async () => {
    const { connect } = await serviceWith({
      maxBodyBytes: 1_000_000,
      overloadManager: { resourceMonitors: { inflightBodyBytes: { maxBytes: 1_000_000 } } },
    });
    const [first, second] = [await connect(), await connect()];
    const half = Buffer.from(JSON.stringify({ type: "response.create", ...say("x".repeat(900_000)) }));
    for (const client of [first, second]) client.ws.send(half.subarray(0, 400_000), { fin: false, binary: false });
    const refused = await Promise.any([first.answer(), second.answer()]);
    expect(refused[0]).toMatchObject({ status: 429, headers: { "retry-after": expect.any(String) } });
    expect(await Promise.race([first.closed, second.closed])).toBe(1013);
  });
});
