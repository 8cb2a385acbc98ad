import { expect, test } from "vitest";
import { ModelState } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { becomes } from "../../support/becomes.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { readBody } from "../../support/http/read-until.ts";
import { FRONT_MODELS, outcomeOf, startFront } from "../../support/processes/fault-front.ts";
import { Fleet, healthy } from "../../support/processes/fleet.ts";

/* The engine is stuck while its node runs, as with a wedged accelerator. */

const fleet = new Fleet();
const CHAT = "/v1/chat/completions";
const chat = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] };

test("an engine that hangs takes its node out of service, then fails the probe; both return when it goes on", async () => {
  const backend = { sticks: true, tokensPerSecond: 50, answerTokens: { min: 2_000, max: 2_000 } };
  const stuck = await fleet.engine("stuck", backend, FRONT_MODELS, { settings: { maxStepAgeMs: 400 } });
  const good = await fleet.engine("good", {}, FRONT_MODELS);
  const gateway = await startFront([stuck.address, good.address]);
  fleet.onEnd(() => gateway.end());
  const client = new NodeClient(stuck.address);
  fleet.onEnd(() => client.close());
  for (const { address } of [stuck, good]) await healthy(gateway, address);
  const probe = async (path: string) => (await stuck.metricsPort(path)).status;
  expect(await probe("/livez/engine")).toBe(200);
  const state = async () => (await client.describe()).models[0]?.state;

  const running = await gateway.post(CHAT, { ...chat, stream: true });
  const body = readBody(running);
  await body.until((text) => /"content":"./.test(text));
  stuck.signal("SIGUSR2");
  // The node has detected it, and reported it: to its running stream, which the other node continues, to its log, and
  // to health.
  const seen = await outcomeOf(gateway, running, body);
  expect(seen.cut).toBe(false);
  expect(seen.log).toMatchObject({ endpoint: good.address, continuations: 1 });
  expect(await state()).toBe(ModelState.FAILED);
  await becomes(async () => stuck.log.some(({ level }) => level === 50), "its log says so");
  await becomes(async () => (await gateway.health(stuck.address)) !== "healthy", "the gateway has noticed");
  const meanwhile = await outcomeOf(gateway, await gateway.post(CHAT, chat));
  expect(meanwhile.log).toMatchObject({ code: 200, endpoint: good.address, attempts: 1 });
  await becomes(async () => (await probe("/livez/engine")) === 503, "the probe of the engine fails");
  expect(await probe("/healthz")).toBe(200);

  stuck.signal("SIGUSR2");
  await becomes(async () => (await state()) === ModelState.READY, "the node has recovered");
  await healthy(gateway, stuck.address);
  expect(await probe("/livez/engine")).toBe(200);
  const after = await gateway.post(CHAT, { ...chat, max_tokens: 3 });
  expect((await outcomeOf(gateway, after)).log).toMatchObject({ code: 200, endpoint: stuck.address });
});
