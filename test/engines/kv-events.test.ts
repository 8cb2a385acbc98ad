import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { OpenAiCompatibleBackend } from "../../engine/backends/openai-compatible/openai-compatible-backend.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { type Message, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { NodeClient } from "../support/engine/node-client.ts";
import { startNode } from "../support/engine/start-node.ts";
import { workHere } from "../support/engine/work-here.ts";
import { freePort } from "../support/free-port.ts";
import { generateRequest } from "../support/requests/generate-request.ts";

/*
 * Against a real vLLM: an environment with it (`vllm/bin/python`) and the demonstration weights in its form (`demo`),
 * below the folder that SVC_TEST_ENGINES names.
 */
const folder = process.env.SVC_TEST_ENGINES ?? "";
const python = join(folder, "vllm/bin/python");
const PATIENCE_MS = 400_000;
const BLOCK_TOKENS = 32;

const says = (role: Role, text: string): Message => ({ role, parts: [{ kind: { $case: "text", value: { text } } }] });
const hashOf = (messages: readonly Message[]) =>
  createHash("sha256").update(JSON.stringify(messages)).digest().subarray(0, 16);

/** Starts vLLM with its KV events on. */
async function startVllm() {
  const [port, events, replay] = [await freePort(), await freePort(), await freePort()];
  const endpoint = `tcp://127.0.0.1:${events}`;
  const replayEndpoint = `tcp://127.0.0.1:${replay}`;
  const config = { enable_kv_cache_events: true, publisher: "zmq", endpoint, replay_endpoint: replayEndpoint };
  const args = [
    ...["-m", "vllm.entrypoints.openai.api_server", "--model", join(folder, "demo"), "--dtype", "float32"],
    ...["--host", "127.0.0.1", "--port", String(port), "--max-model-len", "4096", "--block-size", String(BLOCK_TOKENS)],
    ...["--enable-scale-out", "--enable-prompt-tokens-details", "--enforce-eager", "--enable-tokenizer-info-endpoint"],
    ...["--kv-events-config", JSON.stringify(config)],
  ];
  const quiet = { HF_HUB_OFFLINE: "1", DO_NOT_TRACK: "1", OMP_NUM_THREADS: "1", CUDA_VISIBLE_DEVICES: "" };
  const env = { ...process.env, ...quiet, VLLM_CPU_KVCACHE_SPACE: "1", VLLM_CPU_OMP_THREADS_BIND: "nobind" };
  const child = spawn(python, args, { env, stdio: "ignore", detached: true });
  const stop = () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
  };
  process.once("exit", stop);
  return { baseUrl: `http://127.0.0.1:${port}`, stop };
}

test.skipIf(!existsSync(python))(
  "a node tells of a real vLLM's cache what vLLM then finds in it",
  { timeout: 2 * PATIENCE_MS },
  async () => {
    const { baseUrl, stop } = await startVllm();
    // Whether vLLM's calls come out whole is tried elsewhere.
    const { toolCall: _calls, ...profile } = loadProfile("hermes-thinking");
    const backend = new OpenAiCompatibleBackend({
      ...{ nodeId: "n1", models: ["svc-qwen"], baseUrl, dialect: "vllm", profile, slots: 4, images: false },
      ...{ startTimeoutMs: PATIENCE_MS, silenceTimeoutMs: PATIENCE_MS, countTimeoutMs: PATIENCE_MS },
      stepTimeoutMs: 120_000,
      work: workHere,
      ...{ loadIntervalMs: 500, priorities: false, sharedCache: false },
    });
    try {
      await backend.start(AbortSignal.timeout(PATIENCE_MS));
      expect(backend.startNotes()).toEqual([]);
      const node = await startNode(backend);
      const client = new NodeClient(node.address);
      const watched = client.watchPrefixes("svc-qwen");
      const told = (messages: readonly Message[]) => watched.held.get(hashOf(messages).toString("hex"));
      const generate = async (messages: readonly Message[]) => {
        const prefixDigests = Buffer.concat(messages.map((_, index) => hashOf(messages.slice(0, index + 1))));
        const request = { ...generateRequest(), messages, tools: [], maxOutputTokens: 80, prefixDigests };
        const reading = client.generate(request);
        expect((await reading.ended).code).toBe(0);
        const pieces = reading.events.map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : ""));
        const last = reading.events.at(-1)?.kind;
        return { text: pieces.join(""), cached: last?.$case === "finished" ? last.value.usage?.cachedInputTokens : -1 };
      };
      const system = says(Role.SYSTEM, "You are terse and kind, and you never ask back. ".repeat(12));
      const first = [system, says(Role.USER, "What is to be done about it, and by whom? ".repeat(8))];
      const { text } = await generate(first);
      await vi.waitFor(() => expect(told(first)).toBeDefined(), { timeout: 20_000 });
      const { tokens, tailTokens } = told(first) ?? { tokens: 0, tailTokens: 0 };
      const next = await generate([...first, says(Role.ASSISTANT, text), says(Role.USER, "And then?")]);
      // The template may write the end of the answer otherwise than the model did.
      expect(next.cached).toBeGreaterThanOrEqual(tokens + tailTokens - BLOCK_TOKENS);
      expect(next.cached).toBeLessThanOrEqual(tokens + tailTokens);
      // The end of the system message is where two conversations part.
      const { cached: head } = await generate([system, says(Role.USER, "Something else.")]);
      expect(head).toBeGreaterThan(BLOCK_TOKENS);
      expect(told([system])?.tokens).toBe(head);
      // Its end is the end of all that it held.
      stop();
      await vi.waitFor(() => expect(watched.held.size).toBe(0), { timeout: 20_000 });
      client.close();
      await node.stop();
    } finally {
      await backend.close();
      stop();
    }
  },
);
