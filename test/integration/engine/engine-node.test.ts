import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { EngineError, type ErrorReason } from "../../../engine/errors.ts";
import { METRICS } from "../../../engine/metrics/metrics.ts";
import { type Event, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ModelState } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { errorInfo } from "../../support/engine/node-client.ts";
import { clientOf, nodeOf, scripted } from "../../support/engine/node-rig.ts";
import { rawGenerate } from "../../support/engine/raw-generate.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { eventually } from "../../support/eventually.ts";
import { generateRequest, textMessage } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const CANARY = "canary-7f3a";

const forever: Script = async function* (_request, signal) {
  yield [started(), textStart(0), delta(0, "so ")];
  await once(signal, "abort");
};

function* failing(error: Error, begun: readonly Event[] = []) {
  yield begun;
  throw error;
}
const TOO_LONG = new EngineError("CONTEXT_WINDOW_EXCEEDED", "too long", { context_window: "8" });
const BROKEN_OFF = new EngineError("ENGINE_STREAM_TRUNCATED", "broke off");

test.each<[ErrorReason, number, Script]>([
  ["CONTEXT_WINDOW_EXCEEDED", 11, () => failing(TOO_LONG)],
  ["ENGINE_ERROR", 13, () => failing(new Error(CANARY))],
  ["ENGINE_STREAM_TRUNCATED", 14, () => failing(BROKEN_OFF, [started(), textStart(0), delta(0, "so far")])],
  ["PROTOCOL_VIOLATION", 13, () => [[started()]]],
])("a generation that fails with %s ends in status %i with its ErrorInfo", async (reason, code, script) => {
  const { node, client } = await nodeOf(scripted(script));
  const reading = client.generate(generateRequest({}, CANARY));
  const ended = await reading.ended;
  expect(ended).toMatchObject({ code, info: { reason, domain: "svc.inference" } });
  expect(JSON.stringify([ended.details, ended.info])).not.toContain(CANARY);
  await eventually(() => expect(node.lines.at(-1)).toMatchObject({ msg: "generate", outcome: reason }));
  expect(JSON.stringify(node.lines)).not.toContain(CANARY);
});

test("refusals carry ErrorInfo: while loading, for unknown models, when full and while draining", async () => {
  const { node, client } = await nodeOf(scripted(forever, 1), { serving: false });
  const count = (model: string) => {
    const { messages, tools } = generateRequest();
    const request = {
      model,
      messages,
      tools,
      toolChoice: undefined,
      reasoning: undefined,
      tenant: "",
      cache: undefined,
    };
    return client.countTokens(request).catch((error) => errorInfo(error)?.reason);
  };
  const refusal = async (model = "svc-qwen") => {
    const { code, info } = await client.generate(generateRequest({ model })).ended;
    return `${code} ${info?.reason}`;
  };
  expect([await refusal(), await count("svc-qwen")]).toEqual(["9 MODEL_LOADING", "MODEL_LOADING"]);
  expect((await client.describe()).models[0]?.state).toBe(ModelState.LOADING);
  node.server.serve();
  expect([await refusal("other"), await count("other")]).toEqual(["5 MODEL_NOT_SERVED", "MODEL_NOT_SERVED"]);
  const running = client.generate(generateRequest());
  await running.seen("blockDelta");
  expect(await refusal()).toBe("8 QUEUE_FULL");
  await client.drain();
  expect([await refusal(), await count("svc-qwen")]).toEqual(["14 DRAINING", "DRAINING"]);
  running.call.cancel();
});

test("a log line holds counts, times and ids, and an invalid request id is not repeated", async () => {
  const { node, client } = await nodeOf(fastSimulator());
  await client.generate(generateRequest({ requestId: CANARY, tenant: CANARY }, CANARY)).ended;
  await client.generate(generateRequest({ requestId: `not an id: ${CANARY}`, model: CANARY }, CANARY)).ended;
  await eventually(() => expect(node.lines).toHaveLength(2));
  expect(node.lines[0]).toMatchObject({ request_id: CANARY, model: "svc-qwen", outcome: "ok", output_tokens: 50 });
  expect(Object.keys(node.lines[0] ?? {})).toEqual(
    expect.arrayContaining(["queue_ms", "prefill_ms", "decode_ms", "ttft_ms", "total_ms"]),
  );
  expect(node.lines[1]).toMatchObject({ request_id: "invalid", model: "unknown", outcome: "MODEL_NOT_SERVED" });
  expect(JSON.stringify(node.lines[1])).not.toContain(CANARY);
});

test("a finished call carries its cost in a trailer", async () => {
  const { client } = await nodeOf(fastSimulator());
  const cost = async () => {
    const { metadata } = await client.generate(generateRequest({}, "x".repeat(4_000))).ended;
    const [packed] = metadata.get("endpoint-load-metrics-bin");
    return OrcaLoadReport.decode(packed as Buffer).requestCost;
  };
  expect(await cost()).toEqual({ "svc.uncached_input_tokens": 1_004, "svc.output_tokens": 50 });
  expect(await cost()).toEqual({ "svc.uncached_input_tokens": 1_004 - 960, "svc.output_tokens": 50 });
});

test("load reports are sent on opening, when requests begin to wait, and when the node drains", async () => {
  const { client } = await nodeOf(fastSimulator({ slots: 1, tokensPerSecond: 1, kvTokens: 10_000 }));
  const reports = client.loadReports(60);
  reports.on("error", () => {});
  onTestFinished(() => reports.cancel());
  const stream = reports[Symbol.asyncIterator]();
  const next = async (): Promise<OrcaLoadReport> => (await stream.next()).value;
  expect((await next()).namedMetrics).toMatchObject({
    "svc.running": 0,
    "svc.waiting": 0,
    "svc.kv_tokens_total": 10_000,
  });
  const calls = [client.generate(generateRequest()), client.generate(generateRequest())];
  const busy = await next();
  expect(busy.namedMetrics).toMatchObject({ "svc.running": 1, "svc.waiting": 1 });
  expect(busy.applicationUtilization).toBe(1);
  expect(busy.utilization.kv_cache).toBeGreaterThan(0);
  await client.drain();
  expect((await next()).namedMetrics["svc.draining"]).toBe(1);
  for (const { call } of calls) call.cancel();
});

test("a slow reader pauses its generation, and then gets all of it in fewer messages", async () => {
  const total = 20_000;
  let produced = 0;
  const flood: Script = function* () {
    yield [started(), textStart(0)];
    for (produced = 0; produced < total; produced += 1) yield [delta(0, `${produced}:${"x".repeat(500)}\n`)];
    yield [blockEnd(0), finished()];
  };
  const { node, client } = await nodeOf(scripted(flood));
  const reading = client.generate(generateRequest());
  reading.call.pause();
  await eventually(async () => expect(await node.gauge("svc_engine_streams_paused")).toBe(1));
  expect(produced).toBeLessThan(total / 4);
  // Another reader on the same node is served meanwhile.
  await clientOf(node.address).countTokens({ ...generateRequest(), toolChoice: undefined, reasoning: undefined });
  reading.call.resume();
  expect((await reading.ended).code).toBe(0);
  expect([reading.legal(), reading.finished(), produced]).toEqual([true, true, total]);
  const texts = reading.events.flatMap(({ kind }) => (kind?.$case === "blockDelta" ? [kind.value.text] : []));
  expect(texts.join("").match(/^\d+/gm)).toEqual(Array.from({ length: total }, (_, at) => `${at}`));
  expect(texts.length).toBeLessThan(total);
  expect(Math.max(...texts.map(({ length }) => length))).toBeLessThan(17 * 1024);
});

test("a node has the metrics of the table, with their types", async () => {
  const { node } = await nodeOf(scripted(forever));
  const page = await node.metrics.registry.metrics();
  const ours = [...page.matchAll(/^# TYPE (svc_\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]);
  const { svc_tls_certificate_expiry_timestamp_seconds: _ofTheProgram, ...wanted } = METRICS;
  expect(ours.sort()).toEqual(
    Object.entries(wanted)
      .map(([name, { type }]) => [name, type])
      .sort(),
  );
});

test("an expired deadline is DEADLINE in log and metrics; a caller that leaves earlier is CANCELLED", async () => {
  const { node, client } = await nodeOf(scripted(forever));
  const { stream, stop } = rawGenerate(node.address, generateRequest(), "50m");
  onTestFinished(stop);
  stream.resume();
  const [trailers] = await once(stream, "trailers");
  expect(trailers["grpc-status"]).toBe("4");
  await eventually(() => expect(node.lines.at(-1)).toMatchObject({ outcome: "DEADLINE" }));
  const reading = client.generate(generateRequest(), { deadline: Date.now() + 600_000 });
  await reading.seen("blockDelta");
  reading.call.cancel();
  await eventually(() => expect(node.lines.at(-1)).toMatchObject({ outcome: "CANCELLED" }));
  const text = await node.metrics.registry.getSingleMetricAsString("svc_engine_generations_total");
  expect(text).toMatch(/reason="DEADLINE"\} 1/);
  expect(text).toMatch(/reason="CANCELLED"\} 1/);
});

test("the deadline of a caller that has stopped reading frees its slot", async () => {
  const backend = scripted(function* (_request, signal) {
    yield [started(), textStart(0)];
    while (!signal.aborted) yield [delta(0, "x".repeat(4_096))];
  });
  const { node } = await nodeOf(backend);
  onTestFinished(rawGenerate(node.address, generateRequest(), "1S").stop);
  await eventually(async () => expect(await node.gauge("svc_engine_streams_paused")).toBe(1));
  await eventually(() => expect(backend.load().busySlots).toBe(0));
  await eventually(() => expect(node.lines.at(-1)).toMatchObject({ outcome: "DEADLINE" }));
});

test("an engine whose steps stop leaves service, and returns when they resume", async () => {
  const engineTime = new VirtualClock();
  const nodeTime = new VirtualClock();
  const backend = fastSimulator({}, engineTime);
  const { node, client } = await nodeOf(backend, { maxStepAgeMs: 1_000, clock: nodeTime });
  const states = async () => (await client.describe()).models.map(({ state }) => state);
  const reading = client.generate(generateRequest());
  await reading.seen("started");
  await nodeTime.advance(999);
  expect(await states()).toEqual([ModelState.READY]);
  await nodeTime.advance(500);
  expect(await reading.ended).toMatchObject({ code: 13, info: { reason: "ENGINE_ERROR" } });
  expect(await states()).toEqual([ModelState.FAILED]);
  expect(await client.generate(generateRequest()).ended).toMatchObject({ code: 13, info: { reason: "ENGINE_ERROR" } });
  expect(node.lines).toContainEqual(
    expect.objectContaining({ level: 50, msg: expect.stringContaining("out of service") }),
  );
  // Nothing runs any more: the node probes the engine for a token, and gives up on one that does not come.
  await nodeTime.advance(5_000);
  expect(await states()).toEqual([ModelState.FAILED]);
  expect(backend.load().busySlots).toBeLessThanOrEqual(1);
  await engineTime.advance(1_000);
  await nodeTime.advance(1_000);
  await engineTime.advance(1_000);
  await nodeTime.advance(1_000);
  expect(await states()).toEqual([ModelState.READY]);
  const again = client.generate(generateRequest());
  await again.seen("started");
  await engineTime.advance(1_000);
  expect((await again.ended).code).toBe(0);
});

test("a stuck slot is detected beside a slow reader", async () => {
  const clock = new VirtualClock();
  const steps = { made: 0, inFlight: 0 };
  const backend = scripted(async function* ({ requestId }, signal) {
    yield [started(), textStart(0), delta(0, "so")];
    if (requestId === "stuck") {
      steps.inFlight = 1;
      await once(signal, "abort");
    }
    while (!signal.aborted) yield [delta(0, "x".repeat(20_000))];
  });
  const load = () => ({ slots: 8, busySlots: 2, waiting: 0, steps });
  const { node, client } = await nodeOf(Object.assign(backend, { load }), { maxStepAgeMs: 1_000, clock });
  client.generate(generateRequest({ requestId: "slow" })).call.pause();
  await eventually(async () => expect(await node.gauge("svc_engine_streams_paused")).toBe(1));
  // A connection of its own: the slow reader holds up all that its connection carries.
  const other = clientOf(node.address);
  const stuck = other.generate(generateRequest({ requestId: "stuck" }));
  await stuck.seen("blockDelta");
  await clock.advance(1_250);
  expect(await stuck.ended).toMatchObject({ code: 13, info: { reason: "ENGINE_ERROR" } });
  expect((await other.describe()).models[0]?.state).toBe(ModelState.FAILED);
});

test("a request of many messages arrives unchanged, and starts nothing if its caller has left", async () => {
  const backend = scripted(forever);
  const { client } = await nodeOf(backend);
  const messages = Array.from({ length: 60_000 }, (_, at) => textMessage(Role.USER, `m${at}`));
  const request = generateRequest({ messages });
  const stays = client.generate(request);
  await stays.seen("started");
  expect(backend.requests).toEqual([GenerateRequest.decode(GenerateRequest.encode(request).finish())]);
  const leaving = Array.from({ length: 3 }, () => client.generate(request));
  await new Promise((resolve) => setTimeout(resolve, 50));
  for (const { call } of leaving) call.cancel();
  await Promise.all(leaving.map(({ ended }) => ended));
  // A request that was cancelled before it began must not hold a slot forever.
  await until(() => backend.load().busySlots === 1, "one is served");
  await client.generate(generateRequest({}, "one more")).seen("started");
  expect(backend.load().busySlots).toBe(2);
});
