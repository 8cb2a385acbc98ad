import { Registry } from "prom-client";
import { expect, test } from "vitest";
import type { OpenAiCompatibleBackend } from "../../../engine/backends/openai-compatible/openai-compatible-backend.ts";
import { serveMetrics } from "../../../engine/metrics/metrics-server.ts";
import { ModelState } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { atEnd, backendOf, FOREVER } from "../../support/dialects/dialect-rig.ts";
import { type DialectServer, obedient, type Reply, startDialectServer } from "../../support/dialects/dialect-server.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { type RunningNode, startNode } from "../../support/engine/start-node.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/*
 * The probe with which a kubelet restarts an engine: it fails if work runs and no step is made, and never while an
 * engine loads, compiles, or is idle.
 */

const MINUTE = 60_000;
/** The defaults of the node, and of one step of an engine beside it. */
const LIMITS = { maxStepAgeMs: 30_000 };
const TIMES = { loadIntervalMs: 5_000, stepTimeoutMs: 120_000, startTimeoutMs: 60 * MINUTE };
/** The time between two requests to the probe: one or two checks of the watchdog. */
const PIECE_MS = 5_000;
const SILENT: Reply = { kind: "stream", data: [], end: "never" };

type Rig = {
  readonly clock: VirtualClock;
  /** The stand-in's current behaviour: its answers, and its metrics page. */
  readonly engine: { model: "answers" | "stands still"; page: () => string | undefined };
  readonly backend: OpenAiCompatibleBackend;
  readonly node: RunningNode;
  readonly server: DialectServer;
  startAgain(): Promise<void>;
  probe(): Promise<number>;
  state(): Promise<ModelState | undefined>;
  call(): void;
  /** Advances time in pieces, and answers all requests in each; returns the statuses of the probe. */
  pass(ms: number): Promise<ReadonlySet<number>>;
};

/** Starts a node beside a scripted vLLM; neither has finished starting unless it `serves`. */
async function besideVllm({ serves = true } = {}): Promise<Rig> {
  const clock = new VirtualClock();
  const engine: Rig["engine"] = { model: "answers", page: () => "vllm:iteration_tokens_total_count 7\n" };
  const options = {
    model: (body: Parameters<typeof obedient>[0]) => (engine.model === "answers" ? obedient(body) : SILENT),
    load: () => engine.page(),
  };
  const server = await startDialectServer("vllm", options);
  const backend = backendOf(server, "vllm", TIMES, clock);
  if (serves) await backend.start(FOREVER);
  const node = await startNode(backend, { ...LIMITS, clock, serving: serves });
  const probes = await serveMetrics(new Registry(), node.server, { host: "127.0.0.1", port: 0 });
  const client = new NodeClient(node.address);
  atEnd(
    server.stop,
    node.stop,
    () => backend.close(),
    probes.close,
    () => client.close(),
  );
  const probe = async () => (await fetch(`http://127.0.0.1:${probes.port}/livez/engine`)).status;
  return {
    ...{ clock, engine, backend, node, server, probe },
    async startAgain() {
      const again = await startDialectServer("vllm", { ...options, port: Number(new URL(server.baseUrl).port) });
      atEnd(again.stop);
    },
    state: async () => (await client.describe()).models[0]?.state,
    call: () => void client.generate(generateRequest()).ended,
    async pass(ms) {
      const seen = new Set<number>();
      for (let passed = 0; passed < ms; passed += PIECE_MS) {
        await clock.advance(PIECE_MS);
        // Real sockets need real time between two pieces.
        await new Promise((resolve) => setTimeout(resolve, 3));
        seen.add(await probe());
      }
      return seen;
    },
  };
}

test("a vLLM that answers but makes no step leaves service, fails its probe in time, and recovers", async () => {
  const { engine, call, pass, probe, state, server } = await besideVllm();
  engine.model = "stands still";
  const asked = server.bodies.length;
  call();
  await expect.poll(() => server.bodies.length).toBeGreaterThan(asked);
  expect(await pass(2 * MINUTE)).toEqual(new Set([200]));
  expect(await state()).toBe(ModelState.READY);
  expect(await pass(MINUTE)).toEqual(new Set([200]));
  expect(await state()).toBe(ModelState.FAILED);
  // A step may take two minutes, and the limit is five.
  expect(await pass(3.5 * MINUTE)).toEqual(new Set([200]));
  await pass(MINUTE);
  expect(await probe()).toBe(503);
  engine.model = "answers";
  await pass(MINUTE);
  expect([await probe(), await state()]).toEqual([200, ModelState.READY]);
});

test("a vLLM that stops answering fails its probe likewise", async () => {
  const { engine, call, pass, probe, server } = await besideVllm();
  await pass(MINUTE);
  Object.assign(engine, { model: "stands still", page: () => undefined });
  const asked = server.bodies.length;
  call();
  await expect.poll(() => server.bodies.length).toBeGreaterThan(asked);
  expect(await pass(6 * MINUTE)).toEqual(new Set([200]));
  await pass(1.5 * MINUTE);
  expect(await probe()).toBe(503);
});

test("a prefill of twenty minutes is work, and an idle engine owes no step", async () => {
  const { engine, call, pass, state, server } = await besideVllm();
  expect(await pass(20 * MINUTE)).toEqual(new Set([200]));
  let blocks = 0;
  Object.assign(engine, { model: "stands still", page: () => `vllm:kv_cache_usage_perc 0.${++blocks}\n` });
  const asked = server.bodies.length;
  call();
  await expect.poll(() => server.bodies.length).toBeGreaterThan(asked);
  expect(await pass(20 * MINUTE)).toEqual(new Set([200]));
  expect(await state()).toBe(ModelState.READY);
});

test("a vLLM that compiles for ten minutes before it serves passes its probe", async () => {
  const { engine, backend, node, pass, state, server } = await besideVllm({ serves: false });
  engine.model = "stands still";
  const stop = new AbortController();
  const starting = backend.start(stop.signal);
  await expect.poll(() => server.bodies.length).toBeGreaterThan(0);
  expect(await pass(10 * MINUTE)).toEqual(new Set([200]));
  stop.abort();
  await expect(starting).rejects.toThrow();
  engine.model = "answers";
  await backend.start(FOREVER);
  node.server.serve();
  expect(await state()).toBe(ModelState.READY);
});

test("a restarted vLLM that loads, and then compiles for ten minutes, passes its probe", async () => {
  const { engine, call, pass, probe, state, server, startAgain } = await besideVllm();
  await server.stop();
  expect(await pass(20 * MINUTE)).toEqual(new Set([200]));
  expect(await state()).toBe(ModelState.FAILED);
  engine.model = "stands still";
  await startAgain();
  call();
  expect(await pass(10 * MINUTE)).toEqual(new Set([200]));
  engine.model = "answers";
  await pass(MINUTE);
  expect([await probe(), await state()]).toEqual([200, ModelState.READY]);
});

test("an answer that its caller does not read is not a step that the engine owes", async () => {
  const { backend, pass, state } = await besideVllm();
  const answer = backend.generate(generateRequest(), FOREVER);
  for (let kind: string | undefined; kind !== "started"; ) {
    const { value } = await answer.next();
    kind = value?.events[0]?.kind?.$case;
  }
  expect(backend.load()).toMatchObject({ busySlots: 1, steps: { inFlight: 0 } });
  expect(await pass(10 * MINUTE)).toEqual(new Set([200]));
  expect(await state()).toBe(ModelState.READY);
  await answer.return();
});
