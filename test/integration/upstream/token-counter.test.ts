import { expect, test } from "vitest";
import { CallNotes, encodedCount, type FrontRig } from "../../support/gateway/front-rig.ts";
import { engine, hello, inFrontOf, wired, wireTo } from "../../support/gateway/upstream/routed.ts";
import { until } from "../../support/until.ts";

/** Counts the tokens of a prompt, and resolves to their number or to the detail token of the failure. */
function counted({ router }: FrontRig, record = new CallNotes()): Promise<number | string> {
  return router.tokenCounter
    .count({ request: encodedCount(), model: "svc-qwen", record }, new AbortController().signal)
    .catch(({ detail }) => detail);
}

test("an endpoint without a listener ends a count within the connect timeout", async () => {
  const [wire] = await wired(hello);
  const { rig } = await inFrontOf([wire], { timeouts: { connectMs: 1_000, acceptMs: 60_000 } });
  wire.vanish();
  await until(() => rig.manager.endpoints[0]?.connected === false, "the connection is gone");
  const outcome = counted(rig);
  await rig.clock.advance(1_000);
  expect(await outcome).toBe("upstream_connect_failure");
});

test("a count that loses its endpoint is distinguished from one that reached none", async () => {
  const held = await engine(hello);
  held.backend.countTokens = () => new Promise(() => {});
  const wire = await wireTo(held);
  const { rig } = await inFrontOf([wire]);
  const record = new CallNotes();
  const outcome = counted(rig, record);
  await until(() => record.attempts === 1, "the endpoint is asked");
  wire.cut();
  expect(await outcome).toBe("upstream_reset");
  expect(record.failedAttempts).toEqual(["upstream_reset"]);
});
