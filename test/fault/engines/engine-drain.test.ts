import { afterAll, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { watchHealth } from "../../support/engine/node-health.ts";
import { EngineProcess } from "../../support/processes/engine-process.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";

const stops: (() => unknown)[] = [];
afterAll(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

test("SIGTERM drains a node: running calls complete, new ones are refused, then the process exits with 0", async () => {
  const engine = await EngineProcess.start("leaving", { tokensPerSecond: 50, answerTokens: { min: 60, max: 60 } });
  const [client, other] = [new NodeClient(engine.address), new NodeClient(engine.address)];
  const health = watchHealth(engine.address, "svc.model/svc-qwen");
  stops.push(
    () => engine.kill(),
    () => client.close(),
    () => other.close(),
    health.stop,
  );
  await health.is("SERVING");
  const running = client.generate(generateRequest());
  await running.seen("blockDelta");
  const ended = engine.stop();
  await health.is("NOT_SERVING");
  expect((await other.generate(generateRequest()).ended).info?.reason).toBe("DRAINING");
  expect((await running.ended).code).toBe(0);
  expect([running.finished(), await ended]).toEqual([true, 0]);
  await becomes(async () => !engine.running, "the process is gone");
});
