import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { durationMs } from "../../deploy/runtime/time/clock.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { type Message, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { backendOf } from "../support/dialects/dialect-rig.ts";
import { NodeClient } from "../support/engine/node-client.ts";
import { startNode } from "../support/engine/start-node.ts";
import { freePort } from "../support/free-port.ts";
import { RealEngine } from "../support/processes/real-engine.ts";
import { generateRequest, textMessage } from "../support/requests/generate-request.ts";
import { digestOf, digestsOf } from "../support/requests/prefix-digests.ts";
import { QUIET } from "./engines.ts";

/*
 * Against a real vLLM: an environment with it (`vllm/bin/python`) and the demonstration weights in its form (`demo`),
 * below the folder that SVC_TEST_ENGINES names.
 */
const folder = process.env.SVC_TEST_ENGINES ?? "";
const python = join(folder, "vllm/bin/python");
const PATIENCE_MS = 900_000;
const BLOCK_TOKENS = 32;

/** Starts vLLM with its KV events on, at the next ports for each further rank. */
async function startVllm(ranks: number) {
  const [events, replay] = [await freePort(ranks), await freePort(ranks)];
  const endpoint = `tcp://127.0.0.1:${events}`;
  const replayEndpoint = `tcp://127.0.0.1:${replay}`;
  const config = { enable_kv_cache_events: true, publisher: "zmq", endpoint, replay_endpoint: replayEndpoint };
  const args = (port: number) => [
    ...["-m", "vllm.entrypoints.openai.api_server", "--model", join(folder, "demo"), "--dtype", "float32"],
    ...["--host", "127.0.0.1", "--port", String(port), "--max-model-len", "4096", "--block-size", String(BLOCK_TOKENS)],
    ...["--enable-scale-out", "--enable-prompt-tokens-details", "--enforce-eager", "--enable-tokenizer-info-endpoint"],
    ...["--kv-events-config", JSON.stringify(config), "--data-parallel-size", String(ranks)],
  ];
  const env = { ...QUIET, VLLM_CPU_KVCACHE_SPACE: "1", VLLM_CPU_OMP_THREADS_BIND: "nobind" };
  return RealEngine.start({ program: python, args, env, logFile: join(tmpdir(), "svc-vllm-kv-events.log") });
}

/** A node beside a real vLLM with some data-parallel ranks. */
async function startRig(ranks: number) {
  const engine = await startVllm(ranks);
  onTestFinished(() => engine.stop());
  const profile = loadProfile("hermes-thinking");
  const times = { startTimeoutMs: PATIENCE_MS, silenceTimeoutMs: PATIENCE_MS, countTimeoutMs: PATIENCE_MS };
  const backend = backendOf(engine, "vllm", { ...times, stepTimeoutMs: 120_000, loadIntervalMs: 500, profile });
  onTestFinished(() => backend.close());
  await backend.start(AbortSignal.timeout(PATIENCE_MS));
  expect(backend.startNotes()).toEqual([]);
  const node = await startNode(backend);
  onTestFinished(() => node.stop());
  const client = new NodeClient(node.address);
  onTestFinished(() => client.close());
  const watched = client.watchPrefixes("svc-qwen");
  const reported = (messages: readonly Message[]) => watched.held.get(digestOf(messages).toString("hex"));
  const generate = async (messages: readonly Message[], maxOutputTokens = 80) => {
    const reading = client.generate(generateRequest({ messages, maxOutputTokens, prefixDigests: digestsOf(messages) }));
    expect((await reading.ended).code).toBe(0);
    const pieces = reading.events.map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : ""));
    const last = reading.events.at(-1)?.kind;
    const { usage, timings } = last?.$case === "finished" ? last.value : {};
    const queueMs = timings?.queue && durationMs(timings.queue);
    return { text: pieces.join(""), cached: usage?.cachedInputTokens ?? -1, queueMs };
  };
  return { backend, node, watched, reported, generate, engine };
}

const SYSTEM = textMessage(Role.SYSTEM, "You are terse and kind, and you never ask back. ".repeat(12));

describe.skipIf(!existsSync(python))("a node beside a real vLLM", { timeout: 2 * PATIENCE_MS }, () => {
  test("announces what vLLM then finds in its cache", async () => {
    const { backend, node, watched, reported, generate, engine } = await startRig(1);
    const first = [SYSTEM, textMessage(Role.USER, "Count from 1 to 12. ".repeat(8))];
    const { text } = await generate(first);
    await vi.waitFor(() => expect(reported(first)).toBeDefined(), { timeout: 20_000 });
    const { tokens, tailTokens } = reported(first) ?? { tokens: 0, tailTokens: 0 };
    const next = await generate([...first, textMessage(Role.ASSISTANT, text), textMessage(Role.USER, "And then?")]);
    // The template may write the end of the answer otherwise than the model did.
    expect(next.cached).toBeGreaterThanOrEqual(tokens + tailTokens - BLOCK_TOKENS);
    expect(next.cached).toBeLessThanOrEqual(tokens + tailTokens);
    // The end of the system message is where two conversations part.
    const { cached: head } = await generate([SYSTEM, textMessage(Role.USER, "Something else.")]);
    expect(head).toBeGreaterThan(BLOCK_TOKENS);
    expect(reported([SYSTEM])?.tokens).toBe(head);
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

  test("picks the rank that holds a conversation, of two", async () => {
    const { reported, generate } = await startRig(2);
    const talks = ["First", "Second", "Third", "Fourth"].map((name) => [
      textMessage(Role.SYSTEM, `${name} among equals, and terse. `.repeat(16)),
      textMessage(Role.USER, "What is to be done about it, and by whom? ".repeat(8)),
    ]);
    await Promise.all(talks.map((talk) => generate(talk, 8)));
    for (const talk of [...talks, ...talks.toReversed()]) {
      await vi.waitFor(() => expect(reported(talk)).toBeDefined(), { timeout: 20_000 });
      const { tokens } = reported(talk) ?? { tokens: 0 };
      const { cached } = await generate(
        [...talk, textMessage(Role.ASSISTANT, "That."), textMessage(Role.USER, "And then?")],
        8,
      );
      expect(cached).toBeGreaterThanOrEqual(tokens);
    }
  });
});
