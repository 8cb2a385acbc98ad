import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { brokenEnd } from "../../support/http/answer-check.ts";
import { Fleet, healthy } from "../../support/processes/fleet.ts";
import { NetworkNamespace, whyNoNamespaces } from "../../support/processes/network-namespace.ts";
import { endKindsOf, openStreams } from "../../support/processes/open-streams.ts";

/* Hosts that disappear from a fleet and return. Each is a network namespace with its own addresses. */

const why = whyNoNamespaces();
if (why) process.stdout.write(`hosts that leave are not tested: ${why}\n`);

const ENDLESS = { tokensPerSecond: 25, answerTokens: { min: 5_000, max: 5_000 } };
const NEVER_A_TOKEN = { timeToFirstTokenMs: 600_000 };

/** An engine takes half a minute to detect a lost peer, and more on a busy machine. */
const DETECTED_MS = 120_000;

const fleet = new Fleet();

function newHost(): NetworkNamespace {
  const host = NetworkNamespace.create();
  fleet.onEnd(() => host.remove());
  return host;
}

describe.skipIf(why)("a host", () => {
  // All at once, for the time that takes.
  test("H3 that dies or whose gateway disappears during a partition is detected", async () => {
    await Promise.all([hostDies(), ...[NEVER_A_TOKEN, ENDLESS].map(gatewayDisappears)]);
  });

  /** Its successor at the same address is used. */
  async function hostDies(): Promise<void> {
    const host = newHost();
    const far = await fleet.engine("far", ENDLESS, undefined, host.setup);
    const timeouts = { perTryIdleTimeoutMs: 2_000 };
    // No continuation is awaited from the lost node.
    const gateway = await fleet.inFrontOf([far], {}, { timeouts, continuation: { maxBytes: 0 } });
    const streams = await openStreams(gateway, 6);
    host.cut();
    await far.kill();
    expect(await endKindsOf(streams)).toEqual(streams.map(({ path }) => brokenEnd(path)));
    await becomes(async () => (await gateway.health(far.address)) === "/failed_active_hc", "it is found out");
    host.heal();
    await far.startAgain();
    await healthy(gateway, far.address);
    await openStreams(gateway, 3);
    expect(await gateway.stat("svc_endpoint_rq_active", far.address)).toBe(3);
  }

  /** Its work is cancelled, before the first delta and within the answer. */
  async function gatewayDisappears(backend: object): Promise<void> {
    const host = newHost();
    const far = await fleet.engine("far", backend, undefined, host.setup);
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
    await becomes(async () => (await far.busy()) === 0, "no slot is taken", DETECTED_MS);
  }
});
