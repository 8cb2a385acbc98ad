import { expect, onTestFinished, test } from "vitest";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { startEngine } from "../../support/engine/start-engine.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { FrontRig } from "../../support/gateway/front-rig.ts";
import { metricSum } from "../../support/metric-text.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

/** A prompt that takes 20 s to prefill at the assumed speed of an endpoint, and begins with a text of its own. */
const long = (name: string) => generateRequest({}, name + "x".repeat(400_000));

/** One node, each of whose prefills lasts until `prefill` is called. */
async function oneNode() {
  const prefills: (() => void)[] = [];
  const script: Script = async function* () {
    yield [started({ inputTokens: 100_000 })];
    await new Promise<void>((resolve) => prefills.push(resolve));
    yield [textStart(0), delta(0, "Hello."), blockEnd(0), finished()];
  };
  const engine = await startEngine(script, { slots: 100 });
  onTestFinished(() => engine.stop());
  const rig = new FrontRig([engine.address], { timeouts: { pendingMs: 30_000 } });
  onTestFinished(() => rig.close());
  await rig.ready();
  const [traffic] = rig.router.traffic;
  if (!traffic) throw new Error("there is no traffic");
  const waits = async (count: number) => until(() => traffic.admission.pending === count, `${count} wait`);
  const begun = async (count: number) => {
    await until(() => prefills.length === count, `${count} prefills have begun`);
    expect(engine.backend.requests.length).toBe(count);
  };
  return { rig, prefills, waits, begun, engine };
}

test("a request that reached its longest wait precedes new ones, and is counted", async () => {
  const { rig, prefills, waits, begun } = await oneNode();
  const first = rig.send(long("a"), { keepsAlive: true });
  await begun(1);
  // Without keep-alives, it waits for half of pendingTimeoutMs.
  const second = rig.send(long("b"));
  await waits(1);
  await rig.clock.advance(15_200);
  const third = rig.send(long("c"), { keepsAlive: true });
  await waits(2);
  prefills[0]?.();
  expect(await first.outcome).toBe("ok");
  await rig.clock.advance(200);
  await begun(2);
  prefills[1]?.();
  expect(await second.outcome).toBe("ok");
  await rig.clock.advance(200);
  await begun(3);
  prefills[2]?.();
  expect(await third.outcome).toBe("ok");
  expect([first, second, third].map(({ calls }) => calls.wasOverdue)).toEqual([false, true, false]);
  expect(metricSum(await rig.registry.metrics(), "svc_cluster_upstream_rq_prefill_overdue_total")).toBe(1);
});
