import { pino } from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import { packageVersion } from "../../../deploy/runtime/files/project-folder.ts";
import { EngineError } from "../../../engine/errors.ts";
import { startTracing } from "../../../engine/tracing/generation-tracing.ts";
import { type Script, ScriptedBackend } from "../../support/engine/scripted-backend.ts";
import { type RunningNode, startNode } from "../../support/engine/start-node.ts";
import { delta, started, textStart } from "../../support/events/events.ts";
import { type CollectedSpan, OtlpCollector } from "../../support/gateway/otlp-collector.ts";
import { gatewayOf } from "../../support/gateway/own-services.ts";
import { HELLO } from "../../support/gateway/scripted-service.ts";
import { readBody } from "../../support/http/read-until.ts";
import { preferred } from "../../support/preferred.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const MESSAGES = "/v1/messages";
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
const GENERATE = "svc.inference.v1.InferenceService/Generate";
const SAMPLED = { traceparent: `00-${TRACE}-${PARENT}-01` };
const QWEN = { model: "svc-qwen" };

// Spans are exported at once, in milliseconds.
process.env.OTEL_BSP_SCHEDULE_DELAY = "10";
process.env.OTEL_EXPORTER_OTLP_TIMEOUT = "1000";

type TracedService = Awaited<ReturnType<typeof serve>>;

async function serve(samplingRatio: number, ...scripts: readonly Script[]) {
  const collector = await OtlpCollector.start();
  onTestFinished(() => collector.stop());
  const tracing = { otlpEndpoint: `${collector.url}/`, samplingRatio };
  const nodes: RunningNode[] = [];
  for (const [index, script] of scripts.entries()) {
    const nodeId = `node-${index}`;
    const backend = new ScriptedBackend({ nodeId, models: ["svc-qwen"], slots: 100, script });
    const traced = startTracing(tracing, nodeId, pino({ level: "silent" }), () => performance.now());
    const node = await startNode(backend, { nodeId, tracing: traced });
    onTestFinished(() => node.stop().then(() => traced.close()));
    nodes.push(node);
  }
  const clusters = [{ model: "svc-qwen", ...preferred(nodes.map(({ address }) => address)) }];
  const gateway = await gatewayOf(nodes, { tracing, clusters });
  return {
    ...{ collector, gateway, nodes },
    async traceOf(response: Response): Promise<{ readonly traceId: string; readonly spanId: string }> {
      const id = response.headers.get("x-request-id");
      const line = () => gateway.log.find((each) => each.includes(`"request_id":"${id}"`));
      await until(() => line() !== undefined, "the request is logged");
      const { trace_id: traceId, span_id: spanId } = JSON.parse(line() ?? "");
      return { traceId, spanId };
    },
    async spans(traceId: string, count: number): Promise<CollectedSpan[]> {
      await until(() => collector.trace(traceId).length >= count, `${count} spans are collected`);
      return collector.trace(traceId);
    },
  };
}

async function ask(service: TracedService, fields: object = {}, headers: Record<string, string> = {}) {
  const response = await service.gateway.post(MESSAGES, { ...MINIMAL[MESSAGES], ...QWEN, ...fields }, headers);
  const { text, cut } = await readBody(response).toEndOrCut();
  return { response, text, cut, trace: await service.traceOf(response) };
}

const refuse: Script = () => {
  throw new EngineError("QUEUE_FULL", "The queue is full.");
};

const breakOff: Script = async function* () {
  yield [started(), textStart(0), delta(0, "It be")];
  throw new EngineError("ENGINE_ABORTED", "The engine was reset.");
};

function shape(spans: readonly CollectedSpan[], below: string): unknown[] {
  return spans
    .filter(({ parentSpanId }) => parentSpanId === below)
    .map(({ service, name, spanId }) => [`${service}: ${name}`, ...shape(spans, spanId)]);
}

describe("a trace", () => {
  test("a trace of a streamed request goes from the caller through the gateway to the engine", async () => {
    const service = await serve(0, HELLO);
    const { text, trace } = await ask(service, { stream: true }, SAMPLED);
    expect(text).toContain("message_stop");
    expect(trace.traceId).toBe(TRACE);
    const spans = await service.spans(TRACE, 4);
    expect(shape(spans, PARENT)).toEqual([
      [
        "svc-gateway: POST /v1/messages",
        ["svc-gateway: chat svc-qwen", [`svc-gateway: ${GENERATE}`, [`svc-engine: ${GENERATE}`]]],
      ],
    ]);
    const [server, chat, call, engine] = ["SERVER", "INTERNAL", "CLIENT", "SERVER"].map((kind, index) =>
      spans.find((span) => span.kind === kind && (index === 3) === (span.service === "svc-engine")),
    );
    expect(server).toMatchObject({
      spanId: trace.spanId,
      status: "UNSET",
      attributes: { "http.request.method": "POST", "http.route": MESSAGES, "http.response.status_code": 200 },
    });
    expect(chat).toMatchObject({
      events: ["accepted", "first_delta", "finish"],
      attributes: {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "svc",
        "gen_ai.request.model": "svc-qwen",
        "gen_ai.response.model": "svc-qwen",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 7,
      },
    });
    const [host, port] = service.nodes[0]?.address.split(":") ?? [];
    expect(call?.attributes).toMatchObject({
      "rpc.system.name": "grpc",
      "rpc.method": GENERATE,
      "rpc.response.status_code": "OK",
      "server.address": host,
      "server.port": Number(port),
    });
    expect(engine).toMatchObject({
      events: ["first_delta", "finish"],
      attributes: { "rpc.response.status_code": "OK", "gen_ai.usage.output_tokens": 7 },
      resource: { "service.instance.id": "node-0", "service.version": packageVersion() },
    });
    expect(spans.every(({ startNanos, endNanos }) => startNanos <= endNanos)).toBe(true);
  });

  test("a trace of a retried request has a span for each try, and each engine's below its own", async () => {
    const service = await serve(1, refuse, HELLO);
    const { response, trace } = await ask(service);
    expect(response.status).toBe(200);
    const spans = await service.spans(trace.traceId, 6);
    expect(shape(spans, "")).toEqual([
      [
        "svc-gateway: POST /v1/messages",
        [
          "svc-gateway: chat svc-qwen",
          [`svc-gateway: ${GENERATE}`, [`svc-engine: ${GENERATE}`]],
          [`svc-gateway: ${GENERATE}`, [`svc-engine: ${GENERATE}`]],
        ],
      ],
    ]);
    expect(spans.find(({ kind }) => kind === "INTERNAL")?.events).toEqual([
      "retry",
      "accepted",
      "first_delta",
      "finish",
    ]);
    const [refused, answered] = spans.filter(({ kind }) => kind === "CLIENT");
    expect(refused).toMatchObject({
      status: "ERROR",
      attributes: {
        "error.type": "upstream_queue_full",
        "rpc.response.status_code": "RESOURCE_EXHAUSTED",
        "svc.try": 1,
      },
    });
    expect(answered).toMatchObject({ status: "UNSET", attributes: { "svc.try": 2 } });
    const engines = spans.filter(({ service: of }) => of === "svc-engine");
    expect(engines.map(({ status, attributes }) => [status, attributes["error.type"]])).toEqual([
      ["UNSET", "QUEUE_FULL"],
      ["UNSET", undefined],
    ]);
  });

  test("a trace of a failed answer is exported by both, although it was not sampled", async () => {
    const service = await serve(0, breakOff);
    const { response, cut, trace } = await ask(service, { stream: true }, { traceparent: `00-${TRACE}-${PARENT}-00` });
    expect(response.status).toBe(200);
    expect(cut).toBe(true);
    const spans = await service.spans(trace.traceId, 4);
    expect(spans.map(({ kind, status, attributes }) => [kind, status, attributes["error.type"]])).toEqual(
      expect.arrayContaining([
        ["SERVER", "ERROR", "upstream_aborted"],
        ["INTERNAL", "ERROR", "upstream_aborted"],
        ["CLIENT", "ERROR", "upstream_aborted"],
        ["SERVER", "ERROR", "ENGINE_ABORTED"],
      ]),
    );
    expect(shape(spans, PARENT)).toHaveLength(1);
    // The same engine was asked to continue, and failed again.
    const events = ["accepted", "first_delta", "continuation"];
    expect(spans.find(({ kind }) => kind === "INTERNAL")?.events).toEqual(events);
    const continued = spans.map(({ attributes }) => attributes["svc.continued_tokens"]);
    expect(continued.filter((tokens) => tokens !== undefined)).toEqual([1]);
  });

  test("a trace of a client that left ends there: its call was cancelled, without an error", async () => {
    const service = await serve(1, async function* (_request, signal) {
      yield [started(), textStart(0), delta(0, "It be")];
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    });
    const leave = new AbortController();
    const { baseUrl, key } = service.gateway;
    const response = await fetch(`${baseUrl}${MESSAGES}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...SAMPLED },
      body: JSON.stringify({ ...MINIMAL[MESSAGES], ...QWEN, stream: true }),
      signal: leave.signal,
    });
    leave.abort();
    expect(response.status).toBe(200);
    const spans = await service.spans(TRACE, 4);
    expect(new Set(spans.map(({ status }) => status))).toEqual(new Set(["UNSET"]));
    const calls = spans.filter(({ name }) => name === GENERATE);
    expect(calls.map(({ attributes }) => attributes["rpc.response.status_code"])).toEqual(["CANCELLED", "CANCELLED"]);
    // The gateway's call is the parent of the node's; both may begin within one tick of the clock.
    const outer = calls.find(({ parentSpanId }) => !calls.some(({ spanId }) => spanId === parentSpanId));
    expect(spans.find(({ spanId }) => spanId === outer?.parentSpanId)?.events).toEqual(["accepted", "first_delta"]);
  });

  test("a trace is followed for callers with a valid key only", async () => {
    const service = await serve(1, HELLO);
    const wrong = { ...SAMPLED, authorization: "Bearer svc-wrong", "x-api-key": "" };
    const { response, trace } = await ask(service, {}, wrong);
    expect(response.status).toBe(401);
    expect(trace.traceId).not.toBe(TRACE);
    const unknown = await fetch(`${service.gateway.baseUrl}/v1/nothing`, { headers: SAMPLED });
    expect(unknown.status).toBe(404);
    await ask(service, {}, SAMPLED);
    await service.spans(TRACE, 4);
    expect(new Set(service.collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
  });

  test("a trace that was not sampled is not exported after success, nor after a client error", async () => {
    const service = await serve(0, HELLO);
    const unsampled = { traceparent: `00-${"c".repeat(32)}-${PARENT}-00` };
    expect((await ask(service, {}, unsampled)).response.status).toBe(200);
    expect((await ask(service, { max_tokens: -1 }, unsampled)).response.status).toBe(400);
    await ask(service, {}, SAMPLED);
    await service.spans(TRACE, 4);
    expect(new Set(service.collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
  });

  test.each([
    ["a refused request", "/v1/messages", { max_tokens: -1 }, 400],
    ["a count of tokens", "/v1/messages/count_tokens", {}, 200],
  ] as const)("a trace of %s is one span", async (_, path, fields, code) => {
    const service = await serve(1, HELLO);
    const response = await service.gateway.post(path, { ...MINIMAL[path], ...QWEN, ...fields });
    await response.text();
    const { traceId } = await service.traceOf(response);
    await ask(service, {}, SAMPLED);
    await service.spans(TRACE, 4);
    const spans = service.collector.trace(traceId);
    expect(spans.map(({ name, status }) => [name, status])).toEqual([[`POST ${path}`, "UNSET"]]);
    expect(spans[0]?.attributes["http.response.status_code"]).toBe(code);
  });
});

test("a collector that is down is logged once, and fails no request", async () => {
  const service = await serve(0, HELLO);
  await service.collector.stop();
  const tracing = { otlpEndpoint: service.collector.url, samplingRatio: 1 };
  const [node] = service.nodes;
  const clusters = [{ model: "svc-qwen", endpoints: [{ address: node?.address }] }];
  const gateway = await gatewayOf(service.nodes, { tracing, clusters });
  const complaints = () => gateway.log.filter((line) => line.includes("traces cannot be exported"));
  for (let count = 0; count < 20; count += 1) {
    const response = await gateway.post(MESSAGES, { ...MINIMAL[MESSAGES], ...QWEN });
    expect(response.status).toBe(200);
    await response.text();
  }
  await until(() => complaints().length > 0, "it is logged");
  expect(JSON.parse(complaints()[0] ?? "")).toMatchObject({ level: 40, reason: "ECONNREFUSED" });
  expect(complaints()).toHaveLength(1);
});
