import { expect, onTestFinished, test } from "vitest";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { startNode } from "../../support/engine/start-node.ts";
import { gatewayOf } from "../../support/gateway/own-services.ts";
import { expectErrorA } from "../../support/http/error-reply.ts";

const MODELS = ["svc-qwen"];
/** A simulated token has 4 characters, and 12 bytes at most. */
const WINDOW_TOKENS = 1_000;
const says = (characters: number) => [{ role: "user", content: "x".repeat(characters) }];

async function service() {
  const node = await startNode(fastSimulator({ models: MODELS, contextTokens: WINDOW_TOKENS }), { models: MODELS });
  onTestFinished(() => node.stop());
  const clusters = [{ model: "svc-qwen", endpoints: [{ address: node.address }] }];
  const gateway = await gatewayOf([node], { clusters });
  const [cluster] = gateway.clusters.clusters;
  return { gateway, sent: () => cluster?.members[0]?.calls.total };
}

test("a prompt that cannot fit is refused before it is sent", async () => {
  const { gateway, sent } = await service();
  const reply = await gateway.post("/v1/responses", { model: "svc-qwen", input: "x".repeat(12 * WINDOW_TOKENS) });
  const message = await expectErrorA(reply, 400, "context_length_exceeded", "input");
  expect(message).toContain("prompt is too long: 1000 tokens > 1000 maximum");
  expect(sent()).toBe(0);
});

test("one that might fit goes to the engine, which counts; a count is always asked of it", async () => {
  const { gateway, sent } = await service();
  const close = { model: "svc-qwen", messages: says(12 * WINDOW_TOKENS - 1) };
  expect((await gateway.post("/v1/chat/completions", close)).status).toBe(400);
  expect(sent()).toBe(1);
  const fits = { model: "svc-qwen", messages: says(3_000), max_tokens: 5 };
  expect((await gateway.post("/v1/chat/completions", fits)).status).toBe(200);
  const count = await gateway.post("/v1/messages/count_tokens", { model: "svc-qwen", messages: says(40_000) });
  expect(count.status).toBe(200);
  // The role before it and behind it.
  expect(await count.json()).toEqual({ input_tokens: 10_004 });
});
