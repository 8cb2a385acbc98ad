import type { EventQueue } from "./event-queue.ts";
import { exactPrefixes, Gateway } from "./gateway.ts";
import { dynamo, gate, llmd, llmdAgents, smg } from "./peer-rules.ts";
import type { ReasonJudge } from "./reason-judge.ts";
import { type Fleet, leastOf, type Router } from "./router.ts";
import type { PlayedWorld } from "./traffic.ts";

/** Picks the node with the least work; all nodes share one cache. */
function oracle({ nodes }: Fleet): Router {
  return {
    send: (_, dispatch) => dispatch(leastOf(nodes.map(({ report }) => report.queuedUncachedTokens + report.running))),
  };
}

type RouterParts = {
  readonly fleet: Fleet;
  readonly gateways: number;
  readonly world: PlayedWorld;
  readonly time: EventQueue;
  readonly random: () => number;
  readonly judge: ReasonJudge;
  readonly number: number;
};

export type ReplayPolicy =
  | "oracle"
  | "least_request"
  | "smg"
  | "llmd"
  | "llmd_agents"
  | "dynamo"
  | "gate"
  | "prefix_affinity"
  | "prefix_affinity_exact";

const gateway =
  (lbPolicy: "least_request" | "prefix_affinity", exact = false) =>
  ({ fleet, gateways, world, time, random, judge, number }: RouterParts): Router => {
    const { nodes, ranks, slots, prefillNodes } = fleet;
    const size = { nodes: nodes.length, ranks, slots, prefillNodes };
    const announced = exact ? exactPrefixes(fleet.announced, size, world.digests) : undefined;
    return new Gateway({
      ...{ lbPolicy, ...size, gateways, clock: time, random, announced, judge, number },
    });
  };

/**
 * Creates the router of one gateway, by policy: those of other projects, a yardstick, and this project's with and
 * without exact cache state.
 */
export const REPLAY_POLICIES: Readonly<Record<ReplayPolicy, (parts: RouterParts) => Router>> = {
  oracle: ({ fleet }) => oracle(fleet),
  least_request: gateway("least_request"),
  smg: ({ fleet }) => smg(fleet),
  llmd: ({ fleet, random }) => llmd(fleet, random),
  llmd_agents: ({ fleet, random }) => llmdAgents(fleet, random),
  dynamo: ({ fleet, random }) => dynamo(fleet, random),
  gate: ({ fleet }) => gate(fleet),
  prefix_affinity: gateway("prefix_affinity"),
  prefix_affinity_exact: gateway("prefix_affinity", true),
};
