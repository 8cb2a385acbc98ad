import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Event } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { becomes } from "../support/becomes.ts";
import { FaultyWire } from "../support/engine/faulty-wire.ts";
import { blockEnd, delta, finished, started, textStart } from "../support/events/events.ts";
import { EngineProcess } from "../support/processes/engine-process.ts";
import {
  expectOutcome,
  FaultBunch,
  GOES_ON,
  PHASES,
  type Phase,
  type Recovery,
  VARIANTS,
  type Variant,
} from "../support/processes/fault-bunch.ts";
import { FRONT_MODELS, type Seen, startFront } from "../support/processes/fault-front.ts";
import { healthy } from "../support/processes/fleet.ts";
import { NetworkNamespace, whyNoNamespaces } from "../support/processes/network-namespace.ts";
import { covering } from "../support/size.ts";

/*
 * fault × phase × format over real processes: one bunch of requests, of every format, for every fault in every phase.
 * Without FULL=1 every fault, phase and detail token occurs, but not each with each.
 */

type Stage = { readonly engine: EngineProcess; readonly wire: FaultyWire; readonly host: NetworkNamespace | undefined };

type Fault = {
  readonly name: string;
  readonly phase: Phase;
  readonly backend: object;
  readonly prepare?: (stage: Stage) => void;
  readonly strike?: (stage: Stage) => void;
  readonly detail: string;
  /** Whether the node continues its answers after the fault. Default: "no". */
  readonly recovers?: Recovery;
  /** Whether the node runs on a host of its own, and the gateway calls it there. Default: no. */
  readonly ownHost?: boolean;
};

/** A fault of a node in every phase: a stopped node never accepts a request. */
function inEveryPhase(
  name: string,
  hold: (stage: Stage) => void,
  strike: (stage: Stage) => void,
  details: readonly [string, string, string],
): readonly Fault[] {
  return PHASES.map(([phase, backend], index) => ({
    ...{ name, phase, backend, strike, detail: details[index] ?? "" },
    ...(phase === "before it is accepted" && { prepare: hold }),
  }));
}

const stop = ({ engine }: Stage) => engine.signal("SIGSTOP");
const silence = ({ wire }: Stage) => wire.silence();
const IDLE = "upstream_per_try_idle_timeout";
const STOPPED = "H2 the node is stopped";
const KILLED = "H1 the node is killed";

const FAULTS: readonly Fault[] = [
  ...inEveryPhase(KILLED, stop, ({ engine }) => engine.signal("SIGKILL"), [
    "upstream_connect_failure",
    "upstream_reset",
    "upstream_reset",
  ]),
  ...inEveryPhase(STOPPED, stop, stop, ["upstream_accept_timeout", IDLE, IDLE]),
  ...inEveryPhase("H3 the connection loses everything", silence, silence, ["upstream_accept_timeout", IDLE, IDLE]),
  // The node continues: without the garbage these calls would show signs of life. For a call that no node has accepted,
  // garbage and silence look alike.
  ...inEveryPhase("H5 the connection brings nonsense", silence, ({ wire }) => wire.garble(), ["", IDLE, IDLE])
    .slice(1)
    .map((fault): Fault => ({ ...fault, recovers: "perhaps" })),
  {
    name: "H9 the engine fails",
    phase: "before the first delta",
    backend: { failAfterTokens: 0 },
    detail: "upstream_reset",
  },
  {
    name: "H9 the engine fails",
    phase: "in the answer",
    backend: { failAfterTokens: 3 },
    detail: "upstream_reset",
    recovers: "yes",
  },
  ...(
    [
      ["before it is accepted", [delta(0, "too early")]],
      ["before the first delta", [started(), textStart(7)]],
      ["in the answer", [started(), textStart(0), delta(0, "a"), delta(3, "astray"), blockEnd(0), finished()]],
    ] as const
  ).map(([phase, events]) => ({
    name: "H5 the engine breaks the order of events",
    phase,
    backend: { kind: "transcript", events: events.map((event) => Event.toJSON(event)), slots: 32 },
    detail: "upstream_protocol_error",
  })),
];

/**
 * A network that loses packets: no connection is closed by that, and each side has to detect it. When an answer has
 * begun, the gateway only sends window updates to the node.
 */
const LOSSES = [
  ["is cut off", (host: NetworkNamespace) => host.cut(), PHASES],
  ["loses what it sends", (host: NetworkNamespace) => host.loseReplies(), PHASES],
  ["loses what it is sent", (host: NetworkNamespace) => host.loseRequests(), PHASES.slice(0, 1)],
] as const;
const LOST: readonly Fault[] = LOSSES.flatMap(([what, lose, phases]) => {
  const strike = ({ host }: Stage) => host && lose(host);
  return inEveryPhase(`H3 the node's host ${what}`, strike, strike, ["upstream_accept_timeout", IDLE, IDLE])
    .slice(0, phases.length)
    .map((fault) => ({ ...fault, ownHost: true, ...(fault.prepare && { strike: () => {} }) }));
});

const why = whyNoNamespaces();
if (why) process.stdout.write(`partitions are not tested: ${why}\n`);

const good = { engine: undefined as EngineProcess | undefined };

beforeAll(async () => {
  good.engine = await EngineProcess.start("good", GOES_ON, FRONT_MODELS);
});

afterAll(async () => {
  await good.engine?.kill();
});

function goodEngine(): EngineProcess {
  if (!good.engine) throw new Error("the good engine runs inside tests only");
  return good.engine;
}

const SOME = covering(
  [...FAULTS, ...(why ? [] : LOST)],
  ({ name }) => name,
  ({ detail }) => detail,
  ({ phase, recovers = "no" }) => `${phase}, recovers: ${recovers}`,
);

describe.each(SOME.map((fault) => [`${fault.name} ${fault.phase}`, fault] as const))("%s", (_title, fault) => {
  let seen: ReadonlyMap<Variant, Seen> = new Map();
  let leases = Number.NaN;
  let busy = Number.NaN;

  beforeAll(async () => {
    const host = fault.ownHost ? NetworkNamespace.create() : undefined;
    const engine = await EngineProcess.start("bad", fault.backend, FRONT_MODELS, host?.setup);
    const wire = await FaultyWire.start(engine.address);
    const { address } = host ? engine : wire;
    const gateway = await startFront([address, goodEngine().address]);
    try {
      for (const each of [address, goodEngine().address]) await healthy(gateway, each);
      const stage = { engine, wire, host };
      fault.prepare?.(stage);
      const bunch = FaultBunch.send(gateway);
      if (fault.strike) {
        await bunch.reach(fault.phase, engine);
        fault.strike(stage);
      }
      seen = await bunch.outcomes();
      await becomes(async () => (await gateway.open()) === 0, "nothing is open in the gateway").catch(() => {});
      leases = await gateway.open();
      if (fault.name === STOPPED) engine.signal("SIGCONT");
      host?.heal();
      // The node detects a half-open connection only when it is closed.
      wire.cut();
      const nodes = [goodEngine(), ...(fault.name === KILLED ? [] : [engine])];
      await becomes(async () => (await busyOf(nodes)) === 0, "no slot is taken").catch(() => {});
      busy = await busyOf(nodes);
    } finally {
      wire.close();
      await gateway.end();
      await engine.kill();
      host?.remove();
    }
  });

  test.each(VARIANTS)("$path stream=$stream $model", (variant) => {
    const { phase, detail } = fault;
    // A script has another revision than a simulator.
    const continued = !("kind" in fault.backend);
    expectOutcome(variant, seen.get(variant), {
      phase,
      detail,
      good: goodEngine().address,
      continued,
      recovers: fault.recovers ?? "no",
    });
  });

  test("no lease, no waiting request, no stream and no slot is left", () => {
    expect({ leases, busy }).toEqual({ leases: 0, busy: 0 });
  });
});

async function busyOf(engines: readonly EngineProcess[]): Promise<number> {
  const busy = await Promise.all(engines.map((engine) => engine.busy()));
  return busy.reduce((sum, one) => sum + one, 0);
}
