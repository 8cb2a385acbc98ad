import type { EventQueue } from "./event-queue.ts";
import { type AnnouncedCaches, exactPrefixes, Gateway } from "./gateway.ts";
import type { PieceCaches } from "./piece-cache.ts";
import type { RankedNode } from "./ranked-node.ts";
import type { ReasonJudge } from "./reason-judge.ts";
import type { NodeReport } from "./replay-node.ts";
import type { PlayedWorld, Prompt } from "./traffic.ts";

export type Follower = {
  /** `cachedTokens` is undefined where the engine reports them at the end only. */
  started(cachedTokens: number | undefined): void;
  /** The prefilled tokens of the prompt, cached ones included; only gateways implement it. */
  progress?(prefilledTokens: number): void;
  firstToken(): void;
  /**
   * The answer is complete; its prefill took `prefillMs` milliseconds. `reported` replaces the queue time and the cached
   * tokens as they were observed.
   */
  finished(prefillMs: number, reported?: { readonly queueMs: number | undefined; readonly cachedTokens: number }): void;
};

export type Router = {
  send(prompt: Prompt, dispatch: (node: number, follower?: Follower) => void): void;
  reported?(node: number, report: NodeReport): void;
};

export type Fleet = {
  readonly nodes: readonly RankedNode[];
  /** The data-parallel ranks of a node, of which each has a cache. */
  readonly ranks: number;
  readonly caches: PieceCaches;
  readonly announced: AnnouncedCaches;
};

export function ruleRouter(pick: (prompt: Prompt, reports: readonly NodeReport[]) => number): Router {
  const reports: NodeReport[] = [];
  return {
    send: (prompt, dispatch) => dispatch(pick(prompt, reports)),
    reported(node, report) {
      reports[node] = report;
    },
  };
}

export function leastOf(numbers: readonly number[]): number {
  return numbers.reduce((best, number, index) => (number < (numbers[best] ?? 0) ? index : best), 0);
}

const LLMD_WEIGHTS = { prefix: 3, queue: 2, kv: 2 };

/** Picks the node with the least work; all nodes share one cache. */
export function oracle({ nodes }: Fleet): Router {
  return ruleRouter(() => leastOf(nodes.map(({ report }) => report.queuedUncachedTokens + report.running)));
}

/** Adds llm-d's scores (cached share, queue, KV use) with exact cache state and the newest reports. */
export function llmd({ nodes, caches, ranks }: Fleet, random: () => number): Router {
  return ruleRouter(({ last, tokens }, reports) => {
    const ofRanks = caches.cachedEverywhere(last);
    const cached = nodes.map((_, node) => Math.max(...ofRanks.slice(node * ranks, (node + 1) * ranks)));
    const waiting = nodes.map((_, node) => reports[node]?.waiting ?? 0);
    const [least, most] = [Math.min(...waiting), Math.max(...waiting)];
    return leastOf(
      nodes.map((_, node) => {
        const queue = most === least ? 1 : (most - (waiting[node] ?? 0)) / (most - least);
        const kv = 1 - (reports[node]?.kvUse ?? 0);
        const { prefix, queue: queueWeight, kv: kvWeight } = LLMD_WEIGHTS;
        // Ties are broken randomly.
        return random() * 1e-9 - (prefix * ((cached[node] ?? 0) / tokens) + queueWeight * queue + kvWeight * kv);
      }),
    );
  });
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

export type ReplayPolicy = "oracle" | "least_request" | "llmd" | "prefix_affinity" | "prefix_affinity_exact";

const gateway =
  (lbPolicy: "least_request" | "prefix_affinity", exact = false) =>
  ({ fleet, gateways, world, time, random, judge, number }: RouterParts): Router => {
    const size = { nodes: fleet.nodes.length, ranks: fleet.ranks };
    const announced = exact ? exactPrefixes(fleet.announced, size, world.digests) : undefined;
    return new Gateway({
      ...{ lbPolicy, ...size, gateways, clock: time, random, announced, judge, number },
    });
  };

/**
 * Creates the router of one gateway, by policy: those of other projects, and this project's with and without exact
 * cache state.
 */
export const REPLAY_POLICIES: Readonly<Record<ReplayPolicy, (parts: RouterParts) => Router>> = {
  oracle: ({ fleet }) => oracle(fleet),
  least_request: gateway("least_request"),
  llmd: ({ fleet, random }) => llmd(fleet, random),
  prefix_affinity: gateway("prefix_affinity"),
  prefix_affinity_exact: gateway("prefix_affinity", true),
};
