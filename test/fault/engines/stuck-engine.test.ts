import { afterAll, beforeAll, expect, test } from "vitest";
import { ModelState } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { becomes } from "../../support/becomes.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { readBody } from "../../support/http/read-until.ts";
import { EngineProcess } from "../../support/processes/engine-process.ts";
import { FRONT_MODELS, outcomeOf, startFront } from "../../support/processes/fault-front.ts";
import { FleetProcess } from "../../support/processes/fleet-process.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";

/* The engine is stuck while its node runs, as with a wedged accelerator. */

type Stuck = {
  readonly process: FleetProcess;
  readonly address: string;
  readonly client: NodeClient;
  readonly probes: string;
};

type Ready = { readonly address: string; readonly metricsPort: number };

const rig: { stuck?: Stuck; good?: EngineProcess; gateway?: GatewayProcess; stepProcess?: number } = {};

/** Started resources of the test; throws outside of it. */
function got<Key extends keyof typeof rig>(key: Key): NonNullable<(typeof rig)[Key]> {
  const value = rig[key];
  if (value === undefined) throw new Error(`${key} has not been started`);
  return value;
}

beforeAll(async () => {
  const { process: node, ready } = await FleetProcess.start<Ready>("test/support/engine/main.js", {
    nodeId: "stuck",
    models: FRONT_MODELS,
    listen: { port: 0 },
    metrics: { port: 0 },
    maxStepAgeMs: 400,
    backend: { kind: "simulator", stepProcess: true, tokensPerSecond: 50, answerTokens: { min: 2_000, max: 2_000 } },
  });
  rig.stuck = {
    process: node,
    address: ready.address,
    client: new NodeClient(ready.address),
    probes: `http://127.0.0.1:${ready.metricsPort}`,
  };
  rig.good = await EngineProcess.start("good", {}, FRONT_MODELS);
  rig.gateway = await startFront([ready.address, rig.good.address]);
  const { engineVersion } = await rig.stuck.client.describe();
  rig.stepProcess = Number(/^1, steps in process (\d+)$/.exec(engineVersion)?.[1]);
});

afterAll(async () => {
  if (rig.stepProcess) process.kill(rig.stepProcess, "SIGCONT");
  rig.stuck?.client.close();
  await rig.gateway?.end();
  await rig.good?.kill();
  await rig.stuck?.process.end();
});

const chat = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] };

test("kill -STOP of the engine takes its node out of service, then fails the probe; -CONT restores both", async () => {
  const [stuck, good, gateway] = [got("stuck"), got("good"), got("gateway")];
  for (const { address } of [stuck, good])
    await becomes(async () => (await gateway.health(address)) === "healthy", "both are healthy");
  const probe = async (path: string) => (await fetch(`${stuck.probes}${path}`)).status;
  expect(await probe("/livez/engine")).toBe(200);
  const state = async () => (await stuck.client.describe()).models[0]?.state;

  const running = await gateway.post("/v1/chat/completions", { ...chat, stream: true });
  const body = readBody(running);
  await body.until((text) => /"content":"./.test(text));
  process.kill(got("stepProcess"), "SIGSTOP");
  // The node has detected it, and reported it: to its running stream, which the other node continues, to its log, and
  // to health.
  const seen = await outcomeOf(gateway, running, body);
  expect(seen.cut).toBe(false);
  expect(seen.log).toMatchObject({ endpoint: good.address, continuations: 1 });
  expect(await state()).toBe(ModelState.FAILED);
  await becomes(async () => stuck.process.log.some(({ level }) => level === 50), "its log says so");
  await becomes(async () => (await gateway.health(stuck.address)) !== "healthy", "the gateway has heard");
  const meanwhile = await outcomeOf(gateway, await gateway.post("/v1/chat/completions", chat));
  expect(meanwhile.log).toMatchObject({ code: 200, endpoint: good.address, attempts: 1 });
  await becomes(async () => (await probe("/livez/engine")) === 503, "the probe of the engine fails");
  expect(await probe("/healthz")).toBe(200);

  process.kill(got("stepProcess"), "SIGCONT");
  await becomes(async () => (await state()) === ModelState.READY, "the node has recovered");
  await becomes(async () => (await gateway.health(stuck.address)) === "healthy", "the gateway has heard");
  expect(await probe("/livez/engine")).toBe(200);
  const after = await gateway.post("/v1/chat/completions", { ...chat, max_tokens: 3 });
  expect((await outcomeOf(gateway, after)).log).toMatchObject({ code: 200, endpoint: stuck.address });
});
