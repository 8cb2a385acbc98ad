import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import { exercises } from "../../../gateway/warm-up/exercises.ts";
import { type LoopbackNode, startLoopbackNode } from "../../../gateway/warm-up/loopback-node.ts";
import { warmUp } from "../../../gateway/warm-up/warm-up.ts";
import { callUntilDone } from "../../../gateway/warm-up/warm-up-caller.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { metricSum } from "../../support/metric-text.ts";

const MODEL = "svc-qwen";
const never = new AbortController().signal;

/** Warms up a gateway with these settings. Resolves to what it logged. */
async function warmed(settings: object, stop = never): Promise<readonly Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: "info", base: null }, { write: (line) => lines.push(JSON.parse(line)) });
  const config = checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters: [], ...settings }, "test");
  await warmUp({ config, log, stop });
  return lines;
}

describe("what a gateway asks itself before others ask it", () => {
  let node: LoopbackNode;
  let gateway: RunningGateway;
  beforeAll(async () => {
    node = await startLoopbackNode(MODEL);
    gateway = await startGateway([], { clusters: [{ model: MODEL, endpoints: [{ address: node.address }] }] });
    while (!gateway.clusters.ready) await new Promise((resolve) => setTimeout(resolve, 5));
  });
  afterAll(async () => {
    await gateway.stop();
    node.close();
  });

  test("is answered with 200, every exercise", async () => {
    const texts = exercises(MODEL, gateway.key);
    const left = [...texts];
    await callUntilDone({ port: gateway.port, connections: 3, next: () => left.pop() });
    const metrics = await gateway.stats.registry.metrics();
    expect(metricSum(metrics, "svc_http_requests_total", 'code="200"')).toBe(texts.length);
    expect(metricSum(metrics, "svc_http_requests_total")).toBe(texts.length);
  });

  test("has each format, streamed and in one piece", () => {
    const asked = exercises(MODEL, "key").map((text) => [text.split(" ")[1], text.includes('"stream":true')].join(" "));
    for (const path of ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
      for (const streamed of [true, false]) expect(asked).toContain(`${path} ${streamed}`);
  });
});

describe("a gateway that warms up", () => {
  test("asks itself, and says how often", async () => {
    const [line, ...more] = await warmed({ warmUpMs: 3_000 });
    expect(line).toMatchObject({ level: 30, msg: "warmed up" });
    expect(line?.requests).toBeGreaterThan(0);
    expect(more).toEqual([]);
  });

  test("does nothing where it is not to take any time", async () => {
    expect(await warmed({ warmUpMs: 0 })).toEqual([]);
  });

  test("ends when it is told to, long before its time", async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 300);
    const lines = await warmed({ warmUpMs: 60_000 }, stop.signal);
    expect(lines.filter(({ level }) => level !== 30)).toEqual([]);
  });

  test("leaves no server, timer or connection behind", async () => {
    const before = process.getActiveResourcesInfo().length;
    await warmed({ warmUpMs: 1_000 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(process.getActiveResourcesInfo().length).toBeLessThanOrEqual(before);
  });
});
