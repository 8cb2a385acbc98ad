import { afterEach, expect, test } from "vitest";
import { Http1Caller, Http2Caller } from "../../support/edge/edge-caller.ts";
import { type EdgeRig, startEdge } from "../../support/edge/edge-rig.ts";
import { HAS_ENVOY, NO_ENVOY } from "../../support/edge/envoy-process.ts";
import { closedLoop, tallyOf } from "../../support/processes/closed-loop.ts";
import { show, size } from "../../support/processes/fleet.ts";
import { mostTokens } from "../../support/processes/open-streams.ts";

/* Gateways that are stopped, one after the other, behind the Envoy of deploy/envoy; FULL=1 has the promised sizes. */

const CLIENTS = size(8, 36);
const SLOW_CLIENTS = 4;
const ROUNDS = size(1, 10);
const REQUESTS = size(50, 10_000);
/** All come from one address, for which the edge allows 200 requests a second. */
const PAUSE_MS = 250;

let rig: EdgeRig | undefined;
afterEach(async () => {
  await rig?.end();
});

test.skipIf(!HAS_ENVOY)(
  `J5 a rolling SIGTERM of two gateways behind Envoy loses no request (${NO_ENVOY})`,
  {
    timeout: 1_800_000,
  },
  async () => {
    rig = await startEdge({ tokensPerSecond: 40, answerTokens: { min: 120, max: 200 }, slots: 500 });
    const { edge } = rig;
    const callers = [new Http1Caller(edge), new Http2Caller(edge)];
    const quick = callers.map((caller) =>
      closedLoop(caller, CLIENTS / 2, { fields: mostTokens(2), pauseMs: PAUSE_MS }),
    );
    const slow = callers.map((caller) => closedLoop(caller, SLOW_CLIENTS / 2));
    const beganMs = performance.now();
    const codes: (number | null)[] = [];
    for (let round = 0; round < ROUNDS; round += 1) codes.push(...(await rig.restartInTurn()));
    // Slow answers only have to be running; their number does not count.
    const few = await Promise.all(quick.map((loop) => loop.finish(REQUESTS / 2)));
    const all = [...few, ...(await Promise.all(slow.map((loop) => loop.finish(0))))].flat();
    for (const caller of callers) caller.close();
    const seconds = Math.round((performance.now() - beganMs) / 1_000);
    const tally = tallyOf(all);
    show("rolling SIGTERM behind Envoy", {
      clients: CLIENTS + SLOW_CLIENTS,
      restarts: codes.length,
      requests: all.length,
      seconds,
      tally,
      retries: await rig.envoy.stat("cluster.gateways.upstream_rq_retry"),
    });
    expect(tally).toEqual({ complete: all.length });
    expect(codes).toEqual(codes.map(() => 0));
  },
);
