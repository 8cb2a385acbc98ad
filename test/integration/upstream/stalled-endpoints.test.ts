import { expect, test } from "vitest";
import { delta, started, textStart } from "../../support/events/events.ts";
import { engine, hello, inFrontOf, routed, staysAt, wired } from "../../support/gateway/upstream/routed.ts";
import { settle } from "../../support/gateway/upstream/settle.ts";
import { until } from "../../support/until.ts";

const TIMEOUTS = {
  acceptMs: 1_000,
  perTry: { baseMs: 2_000, perThousandTokensMs: 0, maxMs: 2_000 },
  perTryIdleMs: 3_000,
  interTokenMs: 2_500,
};
const begun = [started(), textStart(0), delta(0, "a")];

test.each([
  { phase: "it does not take the request", script: staysAt(), detail: "upstream_accept_timeout", retried: true },
  {
    phase: "there is no first delta",
    script: staysAt([started()]),
    detail: "upstream_per_try_timeout",
    retried: true,
  },
  {
    phase: "there is no sign of life",
    script: staysAt([started()]),
    timeouts: { perTryIdleMs: 1_000 },
    detail: "upstream_per_try_idle_timeout",
    retried: true,
  },
  {
    phase: "there is no further delta",
    script: staysAt(begun),
    detail: "upstream_inter_token_timeout",
    retried: false,
  },
  {
    phase: "it falls silent in the answer",
    script: staysAt(begun),
    timeouts: { perTryIdleMs: 1_000 },
    detail: "upstream_per_try_idle_timeout",
    retried: false,
  },
])("$phase: $detail", async ({ script, detail, timeouts = {}, retried }) => {
  for (const scripts of [[script], [script, hello]]) {
    const { rig, engines } = await routed(scripts, { timeouts: { ...TIMEOUTS, ...timeouts } });
    const sent = rig.send();
    await until(() => engines[0]?.backend.load().busySlots === 1, "the engine works");
    // Bytes sent before the silence must have arrived before time advances.
    if (detail !== "upstream_accept_timeout") await until(() => sent.events.length > 0, "the first events");
    expect(await settle(rig, sent.outcome)).toBe(retried && scripts.length === 2 ? "ok" : detail);
    // An endpoint that did not begin is asked again as long as the request is held, 16 times at most.
    const alone = detail === "upstream_accept_timeout" ? 16 : 1;
    expect(sent.calls.attempts).toBe(retried && scripts.length === 2 ? 2 : alone);
    await rig.atRest();
  }
});

test("without a listener at its address: the attempt fails within the connect timeout, and another takes the request", async () => {
  const [wire] = await wired(hello);
  const well = await engine(hello);
  const { rig } = await inFrontOf([wire, well], { timeouts: { connectMs: 1_000, acceptMs: 60_000 } });
  const [member] = rig.cluster.members;
  wire.vanish();
  await until(() => member?.endpoint.connected === false, "the connection is gone");
  const sent = rig.send();
  await rig.clock.advance(999);
  expect(sent.calls).toMatchObject({ attempts: 1, endpoint: wire.address });
  await rig.clock.advance(1);
  expect(await settle(rig, sent.outcome)).toBe("ok");
  expect(sent.calls).toMatchObject({ endpoint: well.address, failedAttempts: ["upstream_connect_failure"] });
});

test("a slow reader of ours does not count as a silent endpoint", async () => {
  const { rig } = await routed([staysAt(begun)], { timeouts: TIMEOUTS });
  const sent = rig.send();
  await until(() => sent.events.length > 0, "the answer begins");
  sent.flow().pause();
  await rig.clock.advance(60_000);
  expect(rig.manager.endpoints[0]?.activeRequests).toBe(1);
  sent.flow().resume();
  await rig.clock.advance(10_000);
  expect(await sent.outcome).toBe("upstream_inter_token_timeout");
});
