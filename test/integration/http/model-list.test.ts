import { describe, expect, test } from "vitest";
import { engineOf, gatewayOf } from "../../support/gateway/own-services.ts";
import { HELLO } from "../../support/gateway/scripted-service.ts";
import type { RunningGateway } from "../../support/gateway/start-gateway.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { until } from "../../support/until.ts";

/* The models and names in /v1/models. */

const MODEL = "svc-glm53";

async function untilUp(gateway: RunningGateway, count: number): Promise<void> {
  await until(
    () => gateway.clusters.cluster(MODEL)?.healthyEndpoints.length === count,
    `${count} endpoints are healthy`,
  );
}

async function json(gateway: RunningGateway, path: string, headers = {}): Promise<unknown> {
  const response = await gateway.get(path, headers);
  expect(response.status).toBe(200);
  return response.json();
}

const figures = (window: number) => ({
  context_length: window,
  context_window: window,
  max_model_len: window,
  max_input_tokens: window,
  max_tokens: window,
});

describe("the figures of a model", () => {
  test("the figures of a model are those of the smallest node that is up, and the last ones while none is", async () => {
    const small = await engineOf(HELLO, { contextWindow: 4_096 });
    const large = await engineOf(HELLO, { contextWindow: 32_768 });
    const gateway = await gatewayOf([small, large]);
    const model = () => json(gateway, `/v1/models/${MODEL}`);
    await untilUp(gateway, 2);
    expect(await model()).toMatchObject(figures(4_096));
    await small.stop();
    await untilUp(gateway, 1);
    expect(await model()).toMatchObject(figures(32_768));
    await large.stop();
    await untilUp(gateway, 0);
    expect(await model()).toMatchObject(figures(32_768));
  });

  test("the figures of a model are the catalog's until a node reports, without capabilities", async () => {
    const gateway = await gatewayOf([], { clusters: [{ model: MODEL, endpoints: [{ address: "127.0.0.1:1" }] }] });
    expect(await json(gateway, `/v1/models/${MODEL}`)).toMatchObject({ ...figures(1_048_576), capabilities: null });
  });

  test("the figures of a model have the longest answer of the key, and the model's capabilities in the SDK's form", async () => {
    const gateway = await gatewayOf([await engineOf(HELLO, { contextWindow: 4_096 })]);
    const key = await gateway.createKey("--name", "short", "--models", MODEL, "--max-output-tokens", "100");
    const headers = { authorization: `Bearer ${key}` };
    expect(await json(gateway, `/v1/models/${MODEL}`, headers)).toMatchObject({
      max_input_tokens: 4_096,
      max_tokens: 100,
      capabilities: {
        structured_outputs: { supported: true },
        thinking: { supported: true, types: { enabled: { supported: true }, disabled: { supported: true } } },
        effort: { supported: true, max: { supported: true } },
        image_input: { supported: false },
        batch: { supported: false },
        compaction: { supported: true, summarize: { supported: true } },
        context_management: { supported: true, compact_20260112: { supported: true } },
      },
    });
  });
});

test("the list holds the catalog of Codex, for requests with its version", async () => {
  const engine = await engineOf(HELLO, { contextWindow: 32_768 });
  const clusters = [{ model: MODEL, endpoints: [{ address: engine.address }] }];
  const gateway = await gatewayOf([engine], { clusters, catalog: { aliases: { "gpt-5.5": MODEL } } });
  expect(await json(gateway, "/v1/models")).not.toHaveProperty("models");
  const models = valueAt(await json(gateway, "/v1/models?client_version=0.171.0"), "models");
  const levels = ["low", "medium", "high", "none"].map((effort) => ({ effort, description: expect.any(String) }));
  const known = {
    display_name: expect.stringContaining("GLM 5.3"),
    base_instructions: expect.stringContaining("coding agent"),
    context_window: 32_768,
    truncation_policy: { mode: "tokens", limit: 4_096 },
    supported_reasoning_levels: levels,
    default_reasoning_level: "medium",
    input_modalities: ["text"],
    apply_patch_tool_type: "freeform",
    supports_search_tool: true,
  };
  expect(models).toMatchObject([
    { slug: MODEL, priority: 0, ...known },
    { slug: "gpt-5.5", priority: 1, ...known },
  ]);
});

const idsOf = (list: unknown) => (valueAt(list, "data") as unknown[]).map((model) => valueAt(model, "id"));

const HI = [{ role: "user", content: "hi" }];
const WITHOUT_CLUSTER = [
  ["/v1/chat/completions", { messages: HI }],
  ["/v1/messages", { messages: HI, max_tokens: 16 }],
  ["/v1/messages/count_tokens", { messages: HI }],
  ["/v1/responses", { input: "hi" }],
  ["/v1/responses/compact", { input: HI }],
  ["/v1/responses/input_tokens", { input: "hi" }],
] as const;

test("a model without a cluster is not listed, and 404 in the same words wherever it is named", async () => {
  const one = await engineOf(HELLO);
  const gateway = await gatewayOf([one], { clusters: [{ model: MODEL, endpoints: [{ address: one.address }] }] });
  expect(idsOf(await json(gateway, "/v1/models"))).toEqual([MODEL]);
  const missing = await gateway.get("/v1/models/svc-qwen");
  const { error } = (await missing.json()) as { error: object };
  expect([missing.status, error]).toEqual([404, expect.objectContaining({ code: "model_not_found" })]);
  for (const [path, body] of WITHOUT_CLUSTER) {
    const refused = await gateway.post(path, { ...body, model: "svc-qwen" });
    const said = valueAt(await refused.json(), "error");
    const inB = { type: "not_found_error", message: "model: svc-qwen" };
    expect([path, refused.status, said]).toEqual([path, 404, path.startsWith("/v1/messages") ? inB : error]);
    expect(refused.headers.get("retry-after")).toBeNull();
  }
});

describe("a catalog of one's own", () => {
  const catalog = {
    models: [
      { id: MODEL, contextWindow: 1_048_576, displayName: "GLM 5.3" },
      { id: "own-model.v2", contextWindow: 8_192, displayName: "Own" },
    ],
    aliases: { "claude-sonnet-5": MODEL },
  };

  async function started() {
    const node = await engineOf(HELLO, { models: [MODEL, "own-model.v2"] });
    const clusters = catalog.models.map(({ id }) => ({ model: id, endpoints: [{ address: node.address }] }));
    return { node, gateway: await gatewayOf([node], { catalog, clusters }) };
  }

  test("a catalog of one's own lists its models and their further names", async () => {
    const { gateway } = await started();
    expect(idsOf(await json(gateway, "/v1/models"))).toEqual([MODEL, "own-model.v2", "claude-sonnet-5"]);
    expect(await json(gateway, "/v1/models/claude-sonnet-5")).toMatchObject({
      id: "claude-sonnet-5",
      display_name: "GLM 5.3 (claude-sonnet-5)",
      description: `Another name of ${MODEL}. Context window of 262,144 tokens, reasoning.`,
    });
  });

  test.each([
    ["/v1/chat/completions", { messages: [{ role: "user", content: "hi" }] }],
    ["/v1/messages", { messages: [{ role: "user", content: "hi" }], max_tokens: 16 }],
    ["/v1/responses", { input: "hi" }],
  ])("%s answers a further name under the id of its model, which statistics have too", async (path, body) => {
    const { gateway, node } = await started();
    const response = await gateway.post(path, { ...body, model: "claude-sonnet-5" });
    expect(response.status).toBe(200);
    expect(valueAt(await response.json(), "model")).toBe(MODEL);
    expect(node.backend.requests.at(-1)?.model).toBe(MODEL);
    const metrics = await gateway.stats.registry.metrics();
    expect(metrics).toContain(`model="${MODEL}"`);
    expect(metrics).not.toContain("claude-sonnet-5");
  });

  test.each([
    ["/v1/messages", "claude-cli/2.1.332 (external, cli)", "policy_blocked", /own-model\.v2\. Set ANTHROPIC_MODEL/],
    ["/v1/messages", "anthropic/python", "invalid_request_error", /own-model\.v2\.$/],
    ["/v1/responses", "codex_exec/0.171.0", "invalid_request_error", /own-model\.v2\. Set model in/],
  ])("%s of %s has the type after which it stops, and its setting", async (path, agent, type, message) => {
    const { gateway } = await started();
    const response = await fetch(gateway.baseUrl + path, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json", "user-agent": agent },
      body: JSON.stringify({ model: "claude-opus-5-5", input: "hi" }),
    });
    expect(response.status).toBe(400);
    const body = await response.json();
    expect(valueAt(body, "error")).toMatchObject({ type, message: expect.stringMatching(message) });
  });
});
