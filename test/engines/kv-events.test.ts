import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { durationMs } from "../../deploy/runtime/time/clock.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { backendOf } from "../support/dialects/dialect-rig.ts";
import { NodeClient } from "../support/engine/node-client.ts";
import { startNode } from "../support/engine/start-node.ts";
import { freePort } from "../support/free-port.ts";
import { RealEngine } from "../support/processes/real-engine.ts";
import { generateRequest, textMessage } from "../support/requests/generate-request.ts";
import { digestOf, digestsOf } from "../support/requests/prefix-digests.ts";
import { ENGINES, sglangArgs } from "./engines.ts";

/* Against real engines whose events of the prefix cache are on (`test/engines/run`). */
const PATIENCE_MS = 900_000;
const BLOCK_TOKENS = 32;

type Publishing = "vllm" | "sglang";

/** The arguments of an engine whose events of each rank are at the next ports. */
const ARGUMENTS = {
  vllm: (port: number, ranks: number, publisher: object) => [
    ...(laneOf("vllm")?.command.args(port) ?? []),
    ...["--kv-events-config", JSON.stringify({ enable_kv_cache_events: true, ...publisher })],
    ...["--data-parallel-size", String(ranks)],
  ],
  sglang: (port: number, ranks: number, publisher: object) =>
    sglangArgs(port, "--kv-events-config", JSON.stringify(publisher), "--dp-size", String(ranks)),
};

const laneOf = (dialect: Publishing) => ENGINES.find((lane) => lane.dialect === dialect && lane.installed);
const INSTALLED = (["vllm", "sglang"] as const).filter(laneOf);

async function startPublishing(dialect: Publishing, ranks: number) {
  const lane = laneOf(dialect);
  if (!lane) throw new Error(`${dialect} is not installed`);
  const [events, replay] = [await freePort(ranks), await freePort(ranks)];
  const endpoints = { endpoint: `tcp://127.0.0.1:${events}`, replay_endpoint: `tcp://127.0.0.1:${replay}` };
  const args = (port: number) => ARGUMENTS[dialect](port, ranks, { publisher: "zmq", ...endpoints });
  // SGLang wants the processors of each rank to be named, of several.
  const env = ranks > 1 ? { ...lane.command.env, SGLANG_CPU_OMP_THREADS_BIND: "0|0" } : lane.command.env;
  return RealEngine.start({ ...lane.command, env, args, logFile: join(tmpdir(), `svc-${dialect}-kv-events.log`) });
}

/** A node beside a real engine with some data-parallel ranks. */
async function startRig(dialect: Publishing, ranks: number) {
  const engine = await startPublishing(dialect, ranks);
  onTestFinished(() => engine.stop());
  const profile = loadProfile("hermes-thinking");
  const times = { startTimeoutMs: PATIENCE_MS, silenceTimeoutMs: PATIENCE_MS, countTimeoutMs: PATIENCE_MS };
  const backend = backendOf(engine, dialect, {
    ...{ ...times, stepTimeoutMs: 120_000, loadIntervalMs: 500, profile },
    spellings: dialect === "vllm" ? undefined : [],
  });
  onTestFinished(() => backend.close());
  await backend.start(AbortSignal.timeout(PATIENCE_MS));
  expect(backend.startNotes()).toEqual([]);
  const node = await startNode(backend);
  onTestFinished(() => node.stop());
  const client = new NodeClient(node.address);
  onTestFinished(() => client.close());
  const watched = client.watchPrefixes("svc-qwen");
  const reported = (messages: readonly Message[]) => watched.held.get(digestOf(messages).toString("hex"));
  const generate = async (messages: readonly Message[], fields: Partial<GenerateRequest> = {}) => {
    const own = { messages, maxOutputTokens: 80, prefixDigests: digestsOf(messages), ...fields };
    const reading = client.generate(generateRequest(own));
    expect((await reading.ended).code).toBe(0);
    const pieces = reading.events.map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : ""));
    const last = reading.events.at(-1)?.kind;
    const { usage, timings } = last?.$case === "finished" ? last.value : {};
    const queueMs = timings?.queue && durationMs(timings.queue);
    const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
    return { text: pieces.join(""), tokens, cached: usage?.cachedInputTokens ?? -1, queueMs };
  };
  return { backend, node, watched, reported, generate, engine };
}

const SYSTEM = textMessage(Role.SYSTEM, "You are terse and kind, and you never ask back. ".repeat(12));

// `test/engines/run` has said which are not installed.
if (INSTALLED.length === 0) test.skip("no engine with events is installed", () => {});

describe.each(INSTALLED)("a node beside a real %s", { timeout: 2 * PATIENCE_MS }, (dialect) => {
  test("a node announces what the engine then finds in its cache", async () => {
    const { backend, node, watched, reported, generate, engine } = await startRig(dialect, 1);
    const first = [SYSTEM, textMessage(Role.USER, "Count from 1 to 12. ".repeat(8))];
    const { text, tokens: all } = await generate(first);
    const heldOf = () => (reported(first)?.tokens ?? 0) + (reported(first)?.tailTokens ?? 0);
    // SGLang stores the blocks of an answer behind its end.
    await vi.waitFor(() => expect(heldOf()).toBeGreaterThanOrEqual(all - BLOCK_TOKENS), { timeout: 20_000 });
    const held = heldOf();
    const next = await generate([...first, textMessage(Role.ASSISTANT, text), textMessage(Role.USER, "And then?")]);
    // The template may write the end of the answer otherwise than the model did.
    expect(next.cached).toBeGreaterThanOrEqual(held - BLOCK_TOKENS);
    expect(next.cached).toBeLessThanOrEqual(held);
    // The end of the system message is where two conversations part.
    const { cached: head } = await generate([SYSTEM, textMessage(Role.USER, "Something else.")]);
    expect(head).toBeGreaterThan(BLOCK_TOKENS);
    expect(reported([SYSTEM])?.tokens).toBe(head);
    // Another tenant's equal prompt is another prefix.
    const others = { tenant: "other", prefixDigests: digestsOf(first.toReversed()) };
    expect((await generate(first, others)).cached).toBe(0);
    await vi.waitFor(() => expect(reported(first.toReversed())).toBeDefined(), { timeout: 20_000 });
    expect((await generate(first, others)).cached).toBeGreaterThan(BLOCK_TOKENS);
    // Findings agree with the announcements, and prompts that many send at once are read in their order.
    const crowd = Array.from({ length: 4 }, (_, index) => [
      SYSTEM,
      textMessage(Role.USER, `${index} and more. `.repeat(400)),
    ]);
    const answers = crowd.map((messages) => generate(messages));
    await vi.waitFor(() => expect(backend.load().queuedUncachedTokens).toBeGreaterThan(1_000), { timeout: 20_000 });
    const waits = (await Promise.all(answers)).map(({ queueMs }) => queueMs ?? 0);
    expect(waits[0]).toBeLessThan(waits[3] ?? 0);
    expect(backend.load().queuedUncachedTokens).toBe(0);
    expect(await node.gauge("svc_engine_prefix_contradictions_total")).toBe(0);
    expect(backend.prefixes?.isAnnounced).toBe(true);
    // Its end is the end of all that it held.
    await engine.stop();
    await vi.waitFor(() => expect(watched.held.size).toBe(0), { timeout: 20_000 });
  });

  test("a node picks the rank that holds a conversation, of two", async () => {
    const { reported, generate } = await startRig(dialect, 2);
    const talks = ["First", "Second", "Third", "Fourth"].map((name) => [
      textMessage(Role.SYSTEM, `${name} among equals, and terse. `.repeat(16)),
      textMessage(Role.USER, "What is to be done about it, and by whom? ".repeat(8)),
    ]);
    await Promise.all(talks.map((talk) => generate(talk, { maxOutputTokens: 8 })));
    for (const talk of [...talks, ...talks.toReversed()]) {
      await vi.waitFor(() => expect(reported(talk)).toBeDefined(), { timeout: 20_000 });
      const { tokens } = reported(talk) ?? { tokens: 0 };
      const { cached } = await generate(
        [...talk, textMessage(Role.ASSISTANT, "That."), textMessage(Role.USER, "And then?")],
        { maxOutputTokens: 8 },
      );
      expect(cached).toBeGreaterThanOrEqual(tokens);
    }
  });
});
