import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { brokenEnd } from "../../support/http/answer-check.ts";
import { closedLoop, tallyOf, wronglyEnded } from "../../support/processes/closed-loop.ts";
import type { EngineProcess } from "../../support/processes/engine-process.ts";
import { detailsOf, Fleet, healthy, nothingOpen, SHORT, show, size } from "../../support/processes/fleet.ts";
import { NetworkNamespace, whyNoNamespaces } from "../../support/processes/network-namespace.ts";
import { endsOf, openStreams } from "../../support/processes/open-streams.ts";

/* Hosts that disappear from a fleet and return. Each is a network namespace with its own addresses. */

const why = whyNoNamespaces();
if (why) process.stdout.write(`hosts that leave are not tested: ${why}\n`);

const CLIENTS = size(8, 40);
const ENDLESS = { tokensPerSecond: 25, answerTokens: { min: 5_000, max: 5_000 } };
const NEVER_A_TOKEN = { timeToFirstTokenMs: 600_000 };

const fleet = new Fleet();

function newHost(): NetworkNamespace {
  const host = NetworkNamespace.create();
  fleet.onEnd(() => host.remove());
  return host;
}

function generations(engine: EngineProcess): Promise<number> {
  return engine.metric("svc_engine_generations_total");
}

describe.skipIf(why)("a host", () => {
  test("H3 that is cut off gets no requests, and when it is back, few at first", async () => {
    const host = newHost();
    const far = await fleet.engine("far", SHORT, undefined, host.place);
    const nodes = [far, ...(await fleet.engines(2, SHORT))];
    const gateway = await fleet.inFrontOf(
      nodes,
      {
        lbPolicy: "round_robin",
        outlierDetection: { baseEjectionTimeMs: 3_000 },
      },
      { timeouts: { perTryIdleTimeoutMs: 1_500 } },
    );
    const load = closedLoop(gateway, CLIENTS);
    await becomes(async () => (await generations(far)) > CLIENTS, "it gets its share");
    host.cut();
    await becomes(async () => (await gateway.health(far.address)) !== "healthy", "it is found out");
    await becomes(async () => (await gateway.stat("svc_endpoint_rq_active", far.address)) === 0, "nobody waits on it");
    const before = load.ended.length;
    await becomes(async () => load.ended.length > before + 3 * CLIENTS, "the others serve on");
    host.heal();
    await healthy(gateway, far.address);
    const [farBefore, allBefore] = [await generations(far), load.ended.length];
    await becomes(async () => (await generations(far)) > farBefore, "it gets requests again");
    await becomes(async () => load.ended.length > allBefore + 120, "requests flow");
    const [farGot, all] = [(await generations(far)) - farBefore, load.ended.length - allBefore];
    const ended = await load.finish(load.ended.length);
    const tally = tallyOf(ended);
    show("a host cut off and back", {
      clients: CLIENTS,
      requests: ended.length,
      ...tally,
      ...detailsOf(gateway),
      farGot,
      all,
    });
    expect(farGot).toBeLessThan(all / 5);
    // Streams of the lost host end with an error, and none without a final event.
    expect(wronglyEnded(ended)).toEqual([]);
    await nothingOpen(gateway, nodes);
  });

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
