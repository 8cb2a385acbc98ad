import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { CATALOG } from "../../../gateway/catalog.ts";
import { registerClusterGauges } from "../../../gateway/http/admin/gauges.ts";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Script, ScriptedBackend } from "../../support/engine/scripted-backend.ts";
import { startNode } from "../../support/engine/start-node.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textStart,
  toolCallStart,
} from "../../support/events/events.ts";
import { OtlpCollector } from "../../support/gateway/otlp-collector.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { FrameClient } from "../../support/http/frame-client.ts";
import { RawConnection } from "../../support/http/raw-http.ts";
import { readBody } from "../../support/http/read-until.ts";
import { latch } from "../../support/latch.ts";
import { formsOf, leaks, newCanary } from "../../support/requests/canary.ts";
import { PLANTS, type Planted } from "../../support/requests/canary-requests.ts";
import { until } from "../../support/until.ts";

/*
 * Unique words are placed wherever text can enter; then everything that outlives a request is searched for them. The
 * search itself is tested with deliberate leaks.
 */

// Spans are exported at once, in milliseconds.
process.env.OTEL_BSP_SCHEDULE_DELAY = "10";
process.env.OTEL_EXPORTER_OTLP_TIMEOUT = "1000";

const stops: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function startLoggedEngine(script: Script, leaky: (text: string, log: pino.Logger) => void) {
  const lines: string[] = [];
  const log = pino({ level: "trace" }, { write: (line) => lines.push(line) });
  const served = { nodeId: "scripted", models: CATALOG.map((model) => model.id) };
  const backend = new ScriptedBackend({
    ...served,
    slots: 100,
    script(request, signal) {
      leaky(JSON.stringify(request.messages), log);
      return script(request, signal);
    },
  });
  const node = await startNode(backend, { ...served, log });
  stops.push(() => node.stop());
  return { ...node, log: lines };
}

const ENGINE_PLACES = ["engine text", "engine reasoning", "engine arguments", "engine tool name", "engine failure"];
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const STREAM_PLACES = [
  "trace state",
  "stream that its reader left",
  "stream that its engine left",
  "rate-limited request",
  "frame of a socket",
];

function talkative(canaries: ReadonlyMap<string, string>, left: () => void): Script {
  const word = (place: string) => canaries.get(place) ?? "";
  return async function* (request, signal) {
    signal.addEventListener("abort", left);
    const seed = request.sampling?.seed;
    if (seed === 1) throw new EngineError("INVALID_REQUEST", word("engine failure"), { note: word("engine failure") });
    if (seed === 2) throw new Error(word("engine failure"));
    yield [started(), reasoningStart(0), delta(0, word("engine reasoning")), blockEnd(0)];
    yield [textStart(1), delta(1, word("engine text"))];
    if (seed === 3) await new Promise(() => {});
    if (seed === 4) throw new EngineError("ENGINE_DOWN", word("engine failure"));
    yield [blockEnd(1), toolCallStart(2, word("engine tool name"))];
    yield [
      delta(2, JSON.stringify({ path: word("engine arguments") })),
      blockEnd(2),
      finished(FinishReason.TOOL_CALLS),
    ];
  };
}

async function plant(gateway: RunningGateway, { path, method = "POST", headers = {}, body }: Planted): Promise<string> {
  const all = { authorization: `Bearer ${gateway.key}`, "content-type": "application/json", ...headers };
  const init: RequestInit = { method, headers: all, ...(body !== undefined && { body }) };
  const reply = await fetch(`${gateway.baseUrl}${path}`, init);
  // A stream whose engine is lost is cut.
  const text = reply.body ? (await readBody(reply).toEndOrCut()).text : "";
  return `${JSON.stringify([...reply.headers])}${text}`;
}

/** The same faults as planted, without canaries: their traces must come from elsewhere. */
const OTHERS: readonly Planted[] = [
  { path: "/v1/chat/completions", body: "{" },
  { path: "/v1/messages", body: '{"model":"svc-qwen"}' },
  { path: "/v1/responses", body: '{"model":"svc-qwen","input":[]}' },
  { path: "/v1/nothing", method: "GET" },
  { path: "/v1/models", method: "GET" },
  { path: "/v1/models", method: "GET", headers: { authorization: "Bearer nothing" } },
  {
    path: "/v1/chat/completions",
    body: '{"model":"svc-qwen","messages":[{"role":"user","content":"hi"}],"temperature":9}',
  },
];

/** Everything that outlives the requests of one run, and the canaries of that run. */
async function run(leaky: (text: string, log: pino.Logger) => void) {
  const places = [...Object.keys(PLANTS), ...ENGINE_PLACES, ...STREAM_PLACES];
  const canaries = new Map(places.map((place) => [place, newCanary()]));
  const word = (place: string) => canaries.get(place) ?? "";
  const left = latch();
  const engine = await startLoggedEngine(talkative(canaries, left.open), leaky);
  const collector = await OtlpCollector.start();
  stops.push(() => collector.stop());
  const tracing = { otlpEndpoint: `${collector.url}/`, samplingRatio: 1 };
  const gateway = await startGateway([engine.address], { maxBodyBytes: 128 * 1024, tracing });
  stops.push(() => gateway.stop());
  registerClusterGauges(gateway.stats, gateway.clusters);

  const direct = new Map<string, string>();
  for (const [place, of] of Object.entries(PLANTS)) direct.set(place, await plant(gateway, of(word(place))));
  const chat = (place: string, seed: number, stream: boolean) =>
    JSON.stringify({ model: "svc-qwen", messages: [{ role: "user", content: word(place) }], seed, stream });
  for (const seed of [1, 2, 4])
    for (const stream of [true, false])
      await plant(gateway, {
        path: "/v1/chat/completions",
        body: chat("stream that its engine left", seed, stream),
      });
  await leaveStream(gateway, chat("stream that its reader left", 3, true), word("engine text"));
  await left.passed;
  const limited = await gateway.createKey("--name", "narrow", "--models", "svc-qwen", "--rpm", "1");
  const authorization = `Bearer ${limited}`;
  for (let count = 0; count < 3; count += 1)
    direct.set(
      "rate-limited request",
      await plant(gateway, {
        path: "/v1/chat/completions",
        headers: { authorization },
        body: chat("rate-limited request", 5, false),
      }),
    );

  const words = { tracestate: `v=${word("trace state")}`, baggage: `b=${word("trace state")}` };
  const headers = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01`, ...words };
  await plant(gateway, { path: "/v1/chat/completions", headers, body: chat("trace state", 5, false) });
  await until(() => collector.trace(TRACE).length >= 3, "the spans are exported");

  await plantFrames(gateway, word("frame of a socket"));
  const others = await Promise.all(OTHERS.map((other) => plant(gateway, other)));
  const folder = dirname(gateway.keyFile);
  const files = await Promise.all((await readdir(folder)).map((name) => contentOf(join(folder, name))));
  const texts = {
    "gateway log": gateway.log.join(""),
    "engine log": engine.log.join(""),
    "gateway metrics": await gateway.stats.registry.metrics(),
    "engine metrics": await engine.metrics.registry.metrics(),
    "exported spans": Buffer.concat(collector.bodies).toString("latin1"),
    "replies to others": others.join("\n"),
    "files of the gateway": files.join("\n"),
  };
  return { canaries, direct, texts };
}

/** Resolves to the content of a file; empty if it was renamed after its folder was read. */
async function contentOf(path: string): Promise<string> {
  try {
    return await readFile(path, "latin1");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  }
}

/** Sends a word wherever a frame can hold one, continued and refused frames among them. */
async function plantFrames(gateway: RunningGateway, word: string): Promise<void> {
  const client = await FrameClient.open(gateway, { "x-codex-turn-metadata": word });
  const words = { model: "svc-qwen", input: word, prompt_cache_key: word, client_metadata: { session_id: word } };
  const { id } = await client.ask(words);
  await client.ask({ ...words, previous_response_id: id });
  await client.ask({ ...words, previous_response_id: word });
  await client.ask({ ...words, type: word });
  await client.ask({ ...words, [word]: word });
  client.send({ type: "response.create", ...words, stream_id: word.slice(0, 64) });
  await client.answer(word.slice(0, 64));
  client.send(`{"${word}`);
  await client.answer();
  await client.close();
}

async function leaveStream(gateway: RunningGateway, body: string, text: string): Promise<void> {
  const connection = await RawConnection.open(gateway.port);
  const fields = `host: x\r\nauthorization: Bearer ${gateway.key}\r\ncontent-type: application/json`;
  const length = `content-length: ${Buffer.byteLength(body)}`;
  connection.write(`POST /v1/chat/completions HTTP/1.1\r\n${fields}\r\n${length}\r\n\r\n${body}`);
  await connection.until(text);
  connection.destroy();
}

describe("zero retention", () => {
  let clean: Awaited<ReturnType<typeof run>>;
  beforeAll(async () => {
    clean = await run(() => {});
  });

  test("no text of callers or engines is in a log, a metric, a file or the reply to another caller", () => {
    const { canaries, direct, texts } = clean;
    expect(texts["gateway log"]).toContain('"msg":"request"');
    expect(texts["gateway metrics"]).toContain("svc_cluster_membership_healthy");
    expect(texts["exported spans"]).toContain("chat svc-qwen");
    expect(texts["exported spans"]).toContain("upstream_reset");
    expect(texts["replies to others"]).toContain("invalid_api_key");
    expect(leaks(canaries, texts)).toEqual([]);
    expect(direct.get("rate-limited request")).toContain('"code":"rate_limit_exceeded"');
    // The engine's words did arrive where they belong.
    expect(direct.get("chat user text")).toContain(canaries.get("engine text"));
    expect(direct.get("chat user text")).toContain(canaries.get("engine arguments"));
  });

  test("an error does not repeat its caller's text, beyond the name of a field or a model", () => {
    const { canaries, direct } = clean;
    const refusals = [...direct].filter(([, text]) => text.includes('"error":{'));
    expect(refusals.length).toBeGreaterThan(20);
    const repeating = refusals.filter(([place, text]) => text.includes(canaries.get(place) ?? "?"));
    expect(repeating.map(([place]) => place).sort()).toEqual([
      "chat model",
      "path of a model",
      "responses unknown field",
    ]);
  });

  test("the search finds an engine that logs one field", async () => {
    const { canaries, texts } = await run((text, log) => log.trace({ text }, "prompt"));
    const found = leaks(canaries, texts);
    expect(found).toContain("chat user text in engine log");
    expect(found).toContain("messages prefill in engine log");
    expect(found.every((leak) => leak.endsWith("in engine log"))).toBe(true);
  });

  const canary = newCanary();
  const hidden: Readonly<Record<string, string>> = {
    "as it is": canary,
    "cut short": canary.slice(0, 12),
    "in JSON within JSON": JSON.stringify(JSON.stringify({ a: canary })),
    "in lower case": canary.toLowerCase(),
    "in base64": Buffer.from(canary).toString("base64"),
    "in base64 behind one byte": Buffer.from(`x${canary}`).toString("base64"),
    "in base64 behind two bytes": Buffer.from(`xy${canary}`).toString("base64url"),
    "in hexadecimal": Buffer.from(canary).toString("hex"),
    "percent-encoded": [...Buffer.from(canary)].map((byte) => `%${byte.toString(16)}`).join(""),
    "in UTF-16": Buffer.from(canary, "utf16le").toString("latin1"),
    "as escapes": [...Buffer.from(canary)].map((byte) => `\\u00${byte.toString(16)}`).join(""),
    "as a list of bytes": JSON.stringify([...Buffer.from(canary)]),
  };

  test.each(Object.entries(hidden))("the search finds a word %s", (_form, text) => {
    expect(leaks(new Map([["here", canary]]), { log: `before ${text} behind` })).toEqual(["here in log"]);
  });

  test("the search finds nothing where another word stands", () => {
    expect(new Set(formsOf(canary)).size).toBe(formsOf(canary).length);
    expect(leaks(new Map([["here", canary]]), { log: Object.values(hidden).join().replaceAll(/./g, "x") })).toEqual([]);
    expect(leaks(new Map([["here", canary]]), { log: newCanary() })).toEqual([]);
  });
});
