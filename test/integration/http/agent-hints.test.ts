import { beforeAll, describe, expect, test } from "vitest";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { metricSum } from "../../support/metric-text.ts";

/* Hints of agents about their requests, on its way to engines and metrics. */

const HI = [{ role: "user", content: "hi" }];
const TURN = { "x-codex-turn-metadata": JSON.stringify({ request_kind: "turn", thread_source: "subagent" }) };
const BACKGROUND = { "x-claude-1p-request-class": "background-task" };

let service: ScriptedService;

beforeAll(async () => {
  service = await startScriptedService();
  return () => service.stop();
});

async function priorityOf(path: string, body: object, headers: Record<string, string>): Promise<number | undefined> {
  const response = await service.gateway.post(path, { model: "svc-qwen", ...body }, headers);
  expect([response.status, (await response.text()).length > 0]).toEqual([200, true]);
  return service.engine.backend.requests.at(-1)?.priority;
}

describe("the priority that an engine gets", () => {
  test.each<[string, string, object, Record<string, string>, number]>([
    ["Codex's metadata in the body", "/v1/responses", { input: "hi", client_metadata: TURN }, {}, -5],
    ["both, the lower one", "/v1/responses", { input: "hi", client_metadata: TURN }, BACKGROUND, -50],
    ["a field `priority` of the body, which is none", "/v1/chat/completions", { messages: HI, priority: 9 }, {}, 0],
  ])("an engine gets the priority of %s", async (_, path, body, headers, priority) => {
    expect(await priorityOf(path, body, headers)).toBe(priority);
  });
});

test("background requests have the queue class low in statistics, and tool times are counted without names", async () => {
  const headers = { ...BACKGROUND, "x-claude-code-prev-tool-durations": "Bash=1500;Secret=500" };
  await priorityOf("/v1/messages", { messages: HI, max_tokens: 16 }, headers);
  const text = await service.gateway.stats.registry.metrics();
  expect(metricSum(text, "svc_agent_tool_seconds_sum")).toBe(2);
  expect(metricSum(text, "svc_queue_wait_seconds_count", 'class="low"')).toBeGreaterThan(0);
  expect(text).not.toContain("Secret");
});
