import { beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { EngineProcess } from "../../support/processes/engine-process.ts";
import {
  expectOutcome,
  FaultBunch,
  GOES_ON,
  PHASES,
  type Phase,
  VARIANTS,
  type Variant,
} from "../../support/processes/fault-bunch.ts";
import { FRONT_MODELS, type Seen, startFront } from "../../support/processes/fault-front.ts";
import { NetworkNamespace, whyNoNamespaces } from "../../support/processes/network-namespace.ts";
import { covering } from "../../support/size.ts";

/*
 * H3 between hosts: nodes in network namespaces, and a network that loses packets. No connection is closed by that:
 * each side has to detect it.
 */

const why = whyNoNamespaces();
if (why) process.stdout.write(`partitions are not tested: ${why}\n`);

type Loss = {
  readonly name: string;
  readonly strike: (host: NetworkNamespace) => void;
  readonly phases: readonly Phase[];
};

const EARLY = "before it is accepted";
const LOSSES: readonly Loss[] = [
  { name: "is cut off", strike: (host) => host.cut(), phases: PHASES.map(([phase]) => phase) },
  { name: "is not heard", strike: (host) => host.loseReplies(), phases: PHASES.map(([phase]) => phase) },
  // Later the gateway only sends window updates to the node.
  { name: "hears nothing", strike: (host) => host.loseRequests(), phases: [EARLY] },
];
/** Without FULL=1 every loss and every phase, but not each with each. */
const ROWS = covering(
  LOSSES.flatMap(({ name, strike, phases }) => phases.map((phase) => ({ name, strike, phase }))),
  ({ name }) => name,
  ({ phase }) => phase,
);

describe.skipIf(why).each(ROWS.map((row) => [`${row.name} ${row.phase}`, row] as const))(
  "H3 a node's host %s",
  (_title, { strike, phase }) => {
    let seen: ReadonlyMap<Variant, Seen> = new Map();
    let leases = Number.NaN;
    let good = "";

    beforeAll(async () => {
      const backend = PHASES.find(([name]) => name === phase)?.[1] ?? {};
      const host = NetworkNamespace.create();
      const far = await EngineProcess.start("far", backend, FRONT_MODELS, host.place);
      const near = await EngineProcess.start("near", GOES_ON, FRONT_MODELS);
      good = near.address;
      const gateway = await startFront([far.address, near.address]);
      try {
        for (const { address } of [far, near])
          await becomes(async () => (await gateway.health(address)) === "healthy", "both are healthy");
        if (phase === EARLY) strike(host);
        const bunch = FaultBunch.send(gateway);
        await bunch.reach(phase, far);
        if (phase !== EARLY) strike(host);
        seen = await bunch.outcomes();
        await becomes(async () => (await gateway.open()) === 0, "nothing is open in the gateway").catch(() => {});
        leases = await gateway.open();
        host.heal();
        await becomes(async () => (await far.busy()) === 0, "no slot is taken");
      } finally {
        await gateway.end();
        await Promise.all([far.kill(), near.kill()]);
        host.remove();
      }
    });

    test.each(VARIANTS)("$path stream=$stream $model", (variant) => {
      const detail = phase === EARLY ? "upstream_accept_timeout" : "upstream_per_try_idle_timeout";
      expectOutcome(variant, seen.get(variant), { phase, detail, good, continued: true });
    });

    test("nothing is left in the gateway", () => {
      expect(leases).toBe(0);
    });
  },
);
