import { expect, test } from "vitest";
import { ModelState } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { ask, atEnd, backendOf, FOREVER, rigOf, says, textChunk } from "../../support/dialects/dialect-rig.ts";
import { type Asked, obedient, startDialectServer } from "../../support/dialects/dialect-server.ts";
import { answerOf } from "../../support/events/answer-of.ts";
import { latch } from "../../support/latch.ts";
import { generateRequest, toolOf } from "../../support/requests/generate-request.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const LONG_STEPS = { maxStepAgeMs: 3_600_000 };

test("a node waits for its engine to start, up to its limit", async () => {
  let asked = 0;
  const late = await rigOf("vllm", { health: () => (++asked < 3 ? 503 : 200) });
  expect(asked).toBe(3);
  expect((await ask(late)).code).toBe(0);

  const dead = await startDialectServer("vllm", { health: () => 503 });
  atEnd(dead.stop);
  await expect(backendOf(dead, "vllm", { startTimeoutMs: 1 }).start(FOREVER)).rejects.toMatchObject({
    reason: "ENGINE_DOWN",
  });
});

test("a node that is stopped while it waits for its engine stops waiting", async () => {
  const engine = await startDialectServer("vllm", { health: () => 503 });
  atEnd(engine.stop);
  const stop = new AbortController();
  const starting = backendOf(engine, "vllm").start(stop.signal);
  stop.abort();
  await expect(starting).rejects.toMatchObject({ reason: "CANCELLED" });
});

test("requests to a lost engine fail as unavailable", async () => {
  const rig = await rigOf("vllm");
  await rig.engine.stop();
  expect(await ask(rig)).toMatchObject({ code: 14, reason: "ENGINE_DOWN" });
});

test("a node whose engine is lost leaves service, and returns with it", async () => {
  const { engine, client } = await rigOf("vllm", {}, { loadIntervalMs: 10 }, { maxStepAgeMs: 200 });
  const state = async () => (await client.describe()).models[0]?.state;
  await engine.stop();
  await expect.poll(state, { timeout: 20_000 }).toBe(ModelState.FAILED);
  expect((await client.generate(generateRequest()).ended).info?.reason).toBe("ENGINE_ERROR");
  const again = await startDialectServer("vllm", { port: Number(new URL(engine.baseUrl).port) });
  atEnd(again.stop);
  await expect.poll(state, { timeout: 20_000 }).toBe(ModelState.READY);
  expect((await client.generate(generateRequest()).ended).code).toBe(0);
});

test("a node leaves service at once when its engine refuses connections, however long a step may take", async () => {
  const { engine, client } = await rigOf("vllm", {}, { loadIntervalMs: 10, stepTimeoutMs: 3_600_000 }, LONG_STEPS);
  await engine.stop();
  const state = async () => (await client.describe()).models[0]?.state;
  await expect.poll(state, { timeout: 20_000 }).toBe(ModelState.FAILED);
});

test("a node leaves service when its engine owes a step and answers nothing, and returns with it", async () => {
  let isFrozen = false;
  const options = {
    load: () => (isFrozen ? undefined : "vllm:iteration_tokens_total_count 7\n"),
    health: () => (isFrozen ? undefined : 200),
  };
  const { engine, client } = await rigOf("vllm", options, { loadIntervalMs: 10, stepTimeoutMs: 3_600_000 }, LONG_STEPS);
  const state = async () => (await client.describe()).models[0]?.state;
  engine.next({ kind: "stream", data: [textChunk("half")], end: "never" });
  const asked = client.generate(generateRequest());
  await expect.poll(() => asked.events.length).toBeGreaterThan(1);
  isFrozen = true;
  expect((await asked.ended).info?.reason).toBe("ENGINE_ERROR");
  expect(await state()).toBe(ModelState.FAILED);
  isFrozen = false;
  await expect.poll(state, { timeout: 20_000 }).toBe(ModelState.READY);
});

test("an engine that takes no grammar of free text gets none for calls that nothing demands", async () => {
  const grammars: string[] = [];
  const model = (asked: Asked) => {
    grammars.push(asked.grammar);
    const refused = { kind: "status", status: 400, body: { error: { message: "no such grammar" } } } as const;
    return asked.grammar.includes("TagDispatch") ? refused : obedient(asked);
  };
  const rig = await rigOf("vllm", { model });
  expect(grammars.filter((grammar) => grammar.includes("TagDispatch"))).toHaveLength(1);
  expect(rig.backend.startNotes().join()).toContain("no grammar of calls");
  grammars.length = 0;
  expect((await rig.client.generate(generateRequest({ tools: [toolOf("run", {})] })).ended).code).toBe(0);
  expect(grammars).toEqual([""]);
});

test("SGLang protects a conversation's prefix for the requested time, and its session is then closed", async () => {
  const clock = new VirtualClock();
  const { engine, client } = await rigOf("sglang", {}, {}, { clock });
  const cache = { affinityKey: "agent", isolationSalt: "", ttl: { seconds: 1_800, nanos: 0 } };
  for (const tenant of ["t1", "t2"]) await client.generate(generateRequest({ tenant, cache })).ended;
  await client.generate(generateRequest()).ended;
  const sessions = engine.bodies.slice(-3).map(({ session_id }) => session_id);
  expect(sessions).toEqual([expect.any(String), expect.any(String), undefined]);
  await clock.advance(1_799_000);
  expect(engine.closedSessions).toEqual([]);
  await clock.advance(1_000);
  await expect.poll(() => engine.closedSessions.length).toBe(2);
  expect(new Set(engine.closedSessions)).toEqual(new Set(sessions.slice(0, 2)));
});

test("a request to a silent engine is given up", async () => {
  const rig = await rigOf("vllm", {}, { silenceTimeoutMs: 1_000 });
  rig.engine.next({ kind: "stream", data: [textChunk("half")], end: "never" });
  expect(await ask(rig)).toMatchObject({ code: 14, reason: "ENGINE_DOWN", whole: false });
  await rig.engine.abortedAtLeast(1);
});

test("a request queued in the engine gets heartbeats as long as the engine works", async () => {
  let steps = 0;
  let asked = 0;
  let works = true;
  const load = () => {
    asked += 1;
    if (works) steps += 1;
    return `vllm:iteration_tokens_total_count ${steps}\nvllm:num_requests_waiting 2\n`;
  };
  const rig = await rigOf("vllm", { load }, { loadIntervalMs: 1 });
  const never = { kind: "stream", data: [], end: "never" } as const;
  rig.engine.next(never, never, never);
  const ahead = [rig.client.generate(generateRequest()), rig.client.generate(generateRequest())];
  for (const reading of ahead) await reading.seen("progress");
  await expect.poll(() => rig.backend.load().queuedUncachedTokens).toBeGreaterThan(0);
  const reading = rig.client.generate(generateRequest());
  const progress = () => reading.events.filter(({ kind }) => kind?.$case === "progress");
  await expect.poll(() => progress().length).toBeGreaterThan(3);
  expect(progress().at(-1)?.kind).toMatchObject({ value: { queuePosition: 2 } });

  works = false;
  const stoppedAt = asked;
  await expect.poll(() => asked).toBeGreaterThan(stoppedAt + 5);
  const before = progress().length;
  await expect.poll(() => asked).toBeGreaterThan(stoppedAt + 15);
  expect(progress().length).toBe(before);
  expect(reading.legal()).toBe(true);
  for (const { call, ended } of [reading, ...ahead]) {
    call.cancel();
    await ended;
  }
  await rig.engine.abortedAtLeast(3);
});

test("an engine in one long step, such as compiling, counts as working for its step timeout", async () => {
  const clock = new VirtualClock();
  let asked = 0;
  const load = () => {
    asked += 1;
    return "vllm:iteration_tokens_total_count 7\n";
  };
  const engine = await startDialectServer("vllm", { load });
  const backend = backendOf(engine, "vllm", { loadIntervalMs: 1_000, stepTimeoutMs: 60_000 }, clock);
  atEnd(engine.stop, () => backend.close());
  await backend.start(FOREVER);
  /** Advances to the next load request, and waits for the engine's answer. */
  const tick = async () => {
    const before = asked;
    await expect.poll(() => clock.advance(1_000).then(() => asked)).toBeGreaterThan(before);
  };
  // A long idle time is not a step.
  await clock.advance(500_000);
  engine.next({ kind: "stream", data: [], end: "never" });
  const leave = new AbortController();
  const steps: bigint[] = [];
  const reading = (async () => {
    for await (const { events } of backend.generate(generateRequest(), leave.signal))
      for (const { kind } of events) if (kind?.$case === "progress") steps.push(BigInt(kind.value.step));
  })();
  await expect.poll(() => engine.bodies.length).toBeGreaterThan(0);
  const from = clock.nowMs();
  for (let signs = 1; clock.nowMs() - from < 50_000; signs += 1) {
    await tick();
    await expect.poll(() => steps.length).toBeGreaterThanOrEqual(signs);
  }
  // The sign that the request was sent may come between two steps.
  expect(new Set(steps).size).toBeGreaterThanOrEqual(steps.length - 1);
  while (clock.nowMs() - from < 62_000) await tick();
  const before = steps.length;
  for (let more = 0; more < 5; more += 1) await tick();
  expect(steps.length - before).toBeLessThanOrEqual(1);
  leave.abort();
  await expect(reading).rejects.toMatchObject({ reason: "CANCELLED" });
});

test.each([
  ["no load page", {}],
  ["a page without progress metrics", { load: () => "llamacpp:requests_processing 1\n" }],
])("an engine with %s counts as working while it answers, before and during its answer", async (_what, page) => {
  const rig = await rigOf("llama-server", page, { loadIntervalMs: 1 });
  const begun = { content: "", tokens: [], stop: false, prompt_progress: { total: 40, cache: 0, processed: 8 } };
  rig.engine.next({ kind: "stream", data: [], end: "never" }, { kind: "stream", data: [begun], end: "never" });
  for (const isStarted of [false, true]) {
    const reading = rig.client.generate(generateRequest());
    if (isStarted) await reading.seen("started");
    const from = reading.events.length;
    const steps = () =>
      reading.events.slice(from).flatMap(({ kind }) => (kind?.$case === "progress" ? [kind.value.step] : []));
    await expect.poll(() => new Set(steps()).size).toBeGreaterThan(3);
    expect(reading.legal()).toBe(true);
    reading.call.cancel();
    await reading.ended;
  }
  await rig.engine.abortedAtLeast(2);
});

test("llama-server's prefill progress is passed on", async () => {
  const rig = await rigOf("llama-server", { tokens: () => 40 });
  rig.engine.next(says({ text: ["yes"], cachedTokens: 8 }));
  const reading = rig.client.generate(generateRequest());
  await reading.ended;
  const steps = reading.events.flatMap(({ kind }) => (kind?.$case === "progress" ? [kind.value.prefilledTokens] : []));
  expect(steps).toEqual(expect.arrayContaining([8, 40]));
  expect(answerOf(reading.events).started).toMatchObject({ inputTokens: 40, cachedInputTokens: 8 });
});

test("leaving before the engine's reply closes the connection", async () => {
  const { engine, backend } = await rigOf("vllm");
  engine.next({ kind: "stream", data: [], end: "never" });
  for await (const { events } of backend.generate(generateRequest(), FOREVER)) {
    expect(events[0]?.kind?.$case).toBe("progress");
    break;
  }
  await engine.abortedAtLeast(1);
  expect(backend.load().busySlots).toBe(0);
});

test("a request gets heartbeats while the engine renders its prompt", async () => {
  const rendered = latch();
  let held = false;
  let steps = 0;
  const beforeRender = () => (held ? rendered.passed : Promise.resolve());
  const load = () => `vllm:iteration_tokens_total_count ${++steps}\n`;
  const rig = await rigOf("vllm", { beforeRender, load }, { loadIntervalMs: 1 });
  held = true;
  const reading = rig.client.generate(generateRequest());
  await reading.seen("progress");
  rendered.open();
  expect((await reading.ended).code).toBe(0);
  expect(reading.legal()).toBe(true);
});

test("an output limit beyond the window is lowered to what fits", async () => {
  let tokens = 0;
  const rig = await rigOf("vllm", { contextWindow: 10_000, tokens: () => tokens });
  tokens = 4_000;
  await ask(rig, { maxOutputTokens: 9_000 });
  expect(rig.engine.bodies.at(-1)?.sampling_params).toMatchObject({ max_tokens: 6_000 });
  await ask(rig, { maxOutputTokens: 100 });
  expect(rig.engine.bodies.at(-1)?.sampling_params).toMatchObject({ max_tokens: 100 });
});

test.each(["vllm", "sglang"] as const)(
  "%s: the model's sampling parameters apply where a request has none",
  async (dialect) => {
    const rig = await rigOf(dialect);
    expect(rig.backend.describe().samplingDefaults).toMatchObject({ temperature: 0.6, topK: 20 });
    await ask(rig);
    expect(rig.engine.bodies.at(-1)?.sampling_params).toMatchObject({ temperature: 0.6, top_k: 20 });
    await ask(rig, { sampling: { temperature: 0, topK: 0, stop: [], logitBias: {} } });
    expect(rig.engine.bodies.at(-1)?.sampling_params).toMatchObject({ temperature: 0, top_k: -1 });
  },
);

test("sampling parameters that the node cannot read are named at the start", async () => {
  const rig = await rigOf("sglang", { modelPath: "org/model" }, { spellings: [] });
  expect(rig.backend.startNotes()).toEqual([expect.stringContaining("sampling defaults are not known")]);
  await ask(rig);
  expect(rig.engine.bodies.at(-1)?.sampling_params).not.toHaveProperty("temperature");
});

test("a prompt that fills the window is refused before the engine is asked", async () => {
  let tokens = 0;
  const rig = await rigOf("sglang", { contextWindow: 10_000, tokens: () => tokens });
  tokens = 10_000;
  const asked = rig.engine.bodies.length;
  expect(await ask(rig, { maxOutputTokens: 9_000 })).toMatchObject({ code: 11, reason: "CONTEXT_WINDOW_EXCEEDED" });
  expect(rig.engine.bodies.length).toBe(asked);
});

test("the key is sent as a bearer token, and no error repeats the engine's text", async () => {
  const rig = await rigOf("vllm", {}, { apiKey: "k-123" });
  expect(new Set(rig.engine.headers.map(({ authorization }) => authorization))).toEqual(new Set(["Bearer k-123"]));
  rig.engine.next({ kind: "status", status: 400, body: { error: { message: "bad text: my secret words" } } });
  const { details } = await rig.client.generate(generateRequest()).ended;
  expect(details).toBe("The engine refuses the request.");
});

test("the node's load is that of the engine's queue", async () => {
  const load =
    '# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name="m"} 3.0\nvllm:kv_cache_usage_perc{model_name="m"} 0.25\n';
  const { backend } = await rigOf("vllm", { load: () => load }, { loadIntervalMs: 1 });
  await expect.poll(() => backend.load()).toMatchObject({ slots: 4, busySlots: 0, waiting: 0, kvUse: 0.25 });
});
