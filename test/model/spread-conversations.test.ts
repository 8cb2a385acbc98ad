import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missing, startBackend } from "../support/engine/demo-engine.ts";
import { startNode } from "../support/engine/start-node.ts";
import { type RunningGateway, startGateway } from "../support/gateway/start-gateway.ts";
import { until } from "../support/until.ts";

/* Conversations of agents that wait for tools most of the time, on two nodes with real slots. */

const MODEL = "svc-qwen";
const SLOTS = 4;
const TURNS = 3;
/** The part of its former prompt that a later turn finds at least. */
const FOUND = 0.95;
const RULES = "You are a terse assistant, and look things up. ".repeat(20);

describe.skipIf(missing !== "")("two nodes of four slots", () => {
  let gateway: RunningGateway;
  const ends: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    const nodes = [];
    for (const nodeId of ["n1", "n2"]) {
      const backend = await startBackend({ nodeId, models: [MODEL], slots: SLOTS, contextTokens: 2_048 });
      const node = await startNode(backend, { models: [MODEL], nodeId });
      nodes.push(node);
      ends.push(node.stop, () => backend.close());
    }
    const endpoints = nodes.map(({ address }) => ({ address }));
    gateway = await startGateway([nodes[0]?.address ?? ""], { clusters: [{ model: MODEL, endpoints }] });
    ends.unshift(gateway.stop);
    const members = () => gateway.clusters.cluster(MODEL)?.members ?? [];
    await until(() => members().every(({ gateways }) => gateways === 1), "nodes report that the gateway is alone");
  });
  afterAll(async () => {
    for (const end of ends) await end();
  });

  test.each([
    ["with one system prompt", (_at: number) => `Common. ${RULES}`, {}],
    ["with system prompts of their own", (at: number) => `Agent ${at}. ${RULES}`, {}],
    ["in one session of Claude Code", (_at: number) => `Session. ${RULES}`, { "x-claude-code-session-id": "s" }],
  ])("two nodes of four slots hold six conversations %s, and lose nothing of them", async (_name, rulesOf, headers) => {
    const agents = Array.from({ length: 1.5 * SLOTS }, (_, at) => ({
      messages: [{ role: "system", content: rulesOf(at) }],
      prompt: 0,
    }));
    for (let turn = 0; turn < TURNS; turn += 1)
      for (const [at, agent] of agents.entries()) {
        agent.messages.push({ role: "user", content: `I am agent ${at}. Count from ${turn} to nine, please.` });
        const body = { model: MODEL, messages: agent.messages, max_tokens: 30, temperature: 0 };
        const reply = await gateway.post("/v1/chat/completions", body, headers);
        const { choices, usage } = (await reply.json()) as {
          readonly choices: readonly [{ readonly message: { readonly content: string } }];
          readonly usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } };
        };
        if (turn > 0) expect(usage.prompt_tokens_details.cached_tokens).toBeGreaterThanOrEqual(FOUND * agent.prompt);
        agent.prompt = usage.prompt_tokens;
        agent.messages.push({ role: "assistant", content: choices[0].message.content });
      }
  });
});
