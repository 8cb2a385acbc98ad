import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import type { RunningEngine } from "../../support/engine/start-engine.ts";
import { textAnswer } from "../../support/events/events.ts";
import { engineOf, gatewayOf } from "../../support/gateway/own-services.ts";
import { HELLO } from "../../support/gateway/scripted-service.ts";
import type { RunningGateway } from "../../support/gateway/start-gateway.ts";
import { ANSWER_PATHS, type AnswerPath, endOf } from "../../support/http/answer-check.ts";
import { readBody } from "../../support/http/read-until.ts";
import { metricSum } from "../../support/metric-text.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";

const SIGN_OF_LIFE: Readonly<Record<AnswerPath, RegExp>> = {
  "/v1/chat/completions": /^:/,
  "/v1/messages": /^event: ping\n/,
  "/v1/responses": /^event: /,
};

const engineAt = (port = 0) => engineOf(HELLO, { port, models: ["svc-qwen"] });

async function inFrontOf(engine: RunningEngine, circuitBreakers: object = {}): Promise<RunningGateway> {
  const healthChecks = { intervalMs: 50 };
  const cluster = { model: "svc-qwen", endpoints: [{ address: engine.address }], healthChecks, circuitBreakers };
  const timeouts = { keepAliveIntervalMs: 50 };
  const gateway = await gatewayOf([], { clusters: [cluster], timeouts });
  await becomes(async () => gateway.clusters.ready, "the engine is healthy");
  return gateway;
}

const portOf = ({ address }: RunningEngine) => Number(address.split(":").at(-1));

async function held(gateway: RunningGateway, count: number): Promise<void> {
  const name = "svc_cluster_upstream_rq_held";
  const now = async () => metricSum(await gateway.stats.registry.metrics(), name);
  await becomes(async () => (await now()) === count, `${count} are held`);
}

const stream = (gateway: RunningGateway, path: AnswerPath) => gateway.post(path, { ...MINIMAL[path], stream: true });

describe("while a model has no endpoint", () => {
  test("streamed requests of all formats are shown signs of life, and answered once when one is back", async () => {
    const first = await engineAt();
    const gateway = await inFrontOf(first);
    await first.stop();
    // The first of them detects that the engine is gone.
    const answers = await Promise.all(ANSWER_PATHS.map((path) => stream(gateway, path)));
    await held(gateway, ANSWER_PATHS.length);
    const bodies = answers.map((answer) => readBody(answer));
    for (const [index, path] of ANSWER_PATHS.entries()) {
      expect(answers[index]?.status).toBe(200);
      await bodies[index]?.until((text) => SIGN_OF_LIFE[path].test(text));
    }
    expect(gateway.overload.bodies.bytes).toBeGreaterThan(0);
    const second = await engineAt(portOf(first));
    for (const [index, path] of ANSWER_PATHS.entries())
      expect(endOf(path, (await bodies[index]?.toEnd()) ?? "")).toEqual({ end: "complete" });
    expect([first.backend.requests.length, second.backend.requests.length]).toEqual([0, ANSWER_PATHS.length]);
    await held(gateway, 0);
    await becomes(async () => gateway.overload.bodies.bytes === 0, "no body is held");
  });

  test("requests that are not streamed are held, and answered once when one is back", async () => {
    const first = await engineAt();
    const gateway = await inFrontOf(first);
    await first.stop();
    const answers = ANSWER_PATHS.map((path) => gateway.post(path, MINIMAL[path]));
    await held(gateway, ANSWER_PATHS.length);
    const second = await engineAt(portOf(first));
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(ANSWER_PATHS.map(() => 200));
    expect(second.backend.requests.length).toBe(ANSWER_PATHS.length);
    await held(gateway, 0);
    await becomes(async () => gateway.overload.bodies.bytes === 0, "no body is held");
  });

  test.each(ANSWER_PATHS)("%s that may not be held gets a retry delay, which grows with the outage", async (path) => {
    const engine = await engineAt();
    const gateway = await inFrontOf(engine, { noEndpointHoldMs: 0 });
    await engine.stop();
    await becomes(async () => !gateway.clusters.ready, "the engine is gone");
    const { status, headers } = await gateway.post(path, MINIMAL[path]);
    expect(status).toBe(path === "/v1/messages" ? 529 : 503);
    expect(Number(headers.get("retry-after-ms"))).toBeGreaterThanOrEqual(4_000);
    expect(headers.get("x-should-retry")).not.toBe("false");
  });

  test.each(ANSWER_PATHS)("%s ends in overload where none comes back in time", async (path) => {
    const engine = await engineAt();
    const gateway = await inFrontOf(engine, { noEndpointHoldMs: 500 });
    await engine.stop();
    const answer = await stream(gateway, path);
    const text = await readBody(answer).toEnd();
    expect(answer.status).toBe(200);
    expect(endOf(path, text)).toMatchObject({ end: "error" });
    expect(text).toContain("overloaded");
    await held(gateway, 0);
    expect(gateway.log.some((line) => JSON.parse(line).detail === "no_healthy_upstream")).toBe(true);
  });

  test("a caller that leaves is not held any more", async () => {
    const engine = await engineAt();
    const gateway = await inFrontOf(engine);
    await engine.stop();
    const answer = await stream(gateway, "/v1/messages");
    await held(gateway, 1);
    await answer.body?.cancel();
    await held(gateway, 0);
    await becomes(async () => gateway.overload.bodies.bytes === 0, "no body is held");
  });
});

test.each(ANSWER_PATHS)(
  "%s is refused as overload while the queue of its model is full, others are answered",
  async (path) => {
    let end = () => {};
    const mayEnd = new Promise<void>((resolve) => {
      end = resolve;
    });
    const engine = await engineOf(
      async function* () {
        await mayEnd;
        yield textAnswer("Hello.");
      },
      { models: ["svc-qwen"] },
    );
    const gateway = await inFrontOf(engine, { maxRequestsPerEndpoint: 1, maxPendingRequests: 1 });
    const pending = async () =>
      metricSum(await gateway.stats.registry.metrics(), "svc_cluster_upstream_rq_pending_active");
    const running = gateway.post(path, MINIMAL[path]);
    await becomes(async () => engine.backend.requests.length === 1, "one request runs");
    const waiting = gateway.post(path, MINIMAL[path]);
    await becomes(async () => (await pending()) === 1, "one request waits");
    const { status, headers } = await gateway.post(path, MINIMAL[path]);
    expect(status).toBe(path === "/v1/messages" ? 529 : 503);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    end();
    expect((await Promise.all([running, waiting])).map((answer) => answer.status)).toEqual([200, 200]);
  },
);
