import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { brokenEnd } from "../../support/http/answer-check.ts";
import { Fleet, healthy } from "../../support/processes/fleet.ts";
import { NetworkNamespace, whyNoNamespaces } from "../../support/processes/network-namespace.ts";
import { endsOf, openStreams } from "../../support/processes/open-streams.ts";

/* Hosts that disappear from a fleet and return. Each is a network namespace with its own addresses. */

const why = whyNoNamespaces();
if (why) process.stdout.write(`hosts that leave are not tested: ${why}\n`);

const ENDLESS = { tokensPerSecond: 25, answerTokens: { min: 5_000, max: 5_000 } };
const NEVER_A_TOKEN = { timeToFirstTokenMs: 600_000 };

const fleet = new Fleet();

function newHost(): NetworkNamespace {
  const host = NetworkNamespace.create();
  fleet.onEnd(() => host.remove());
  return host;
}

describe.skipIf(why)("a host", () => {
  test("H3 that dies during a partition is detected, and its successor at the same address is used", async () => {
    const host = newHost();
    const far = await fleet.engine("far", ENDLESS, undefined, host.place);
    const timeouts = { perTryIdleTimeoutMs: 2_000 };
    // No continuation is awaited from the lost node.
    const gateway = await fleet.inFrontOf([far], {}, { timeouts, continuation: { maxBytes: 0 } });
    const streams = await openStreams(gateway, 6);
    host.cut();
    await far.kill();
    const ends = await endsOf(streams);
    expect(ends.map(({ end }) => end)).toEqual(streams.map(({ path }) => brokenEnd(path)));
    await becomes(async () => (await gateway.health(far.address)) === "/failed_active_hc", "it is found out");
    host.heal();
    await far.startAgain();
    await healthy(gateway, far.address);
    await openStreams(gateway, 3);
    expect(await gateway.stat("svc_endpoint_rq_active", far.address)).toBe(3);
  });

  // Both at once, because an engine takes half a minute to detect the lost peer.
  test("H3 whose gateway disappears cancels its work, before the first delta and within the answer", async () => {
    await Promise.all([NEVER_A_TOKEN, ENDLESS].map(letsGo));
  });

  async function letsGo(backend: object): Promise<void> {
    const host = newHost();
    const far = await fleet.engine("far", backend, undefined, host.place);
    const gateway = await fleet.inFrontOf([far]);
    const leaving = new AbortController();
    const requests = Array.from({ length: 6 }, () =>
      gateway
        .post(
          "/v1/messages",
          { model: "svc-qwen", max_tokens: 9_000, stream: true, messages: [{ role: "user", content: "hi" }] },
          leaving.signal,
        )
        .catch(() => {}),
    );
    await becomes(async () => (await far.metric("svc_engine_slots_busy")) === 6, "it works");
    host.cut();
    await gateway.end();
    leaving.abort();
    await Promise.all(requests);
    await becomes(async () => (await far.busy()) === 0, "no slot is taken");
  }
});
