import type { EventQueue } from "./event-queue.ts";
import type { PlayedWorld } from "./played-session.ts";
import type { ReasonJudge } from "./reason-judge.ts";
import { exactPrefixes, Gateway } from "./routers/gateway.ts";
import { llmd, omniscient, oracle, prefixTree } from "./routers/rivals.ts";
import type { Fleet, Router } from "./routers/router.ts";

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
  | "omniscient"
  | "least_request"
  | "prefix_tree"
  | "llmd"
  | "prefix_affinity"
  | "prefix_affinity_exact";

const gateway =
  (lbPolicy: "least_request" | "prefix_affinity", exact = false) =>
  ({ fleet: { nodes, caches }, gateways, world, time, random, judge, number }: RouterParts): Router => {
    const announced = exact ? exactPrefixes(caches, nodes.length, world.digests) : undefined;
    return new Gateway({
      ...{ lbPolicy, nodes: nodes.length, gateways, clock: time, random, announced, judge, number },
    });
  };

/**
 * Creates the router of one gateway, by policy: those of other projects, and this project's with and without exact
 * cache state.
 */
export const REPLAY_POLICIES: Readonly<Record<ReplayPolicy, (parts: RouterParts) => Router>> = {
  oracle: ({ fleet }) => oracle(fleet),
  omniscient: ({ fleet }) => omniscient(fleet),
  least_request: gateway("least_request"),
  prefix_tree: ({ fleet, world, time }) => prefixTree(fleet, world.store, () => time.nowMs()),
  llmd: ({ fleet, random }) => llmd(fleet, random),
  prefix_affinity: gateway("prefix_affinity"),
  prefix_affinity_exact: gateway("prefix_affinity", true),
};
