import type { PieceCaches } from "../piece-cache.ts";
import type { Prompt } from "../prompt.ts";
import type { NodeReport, ReplayNode } from "../replay-node.ts";

/** Receives the progress of a request for the gateway that sent it. */
export type Follower = {
  /** The node has begun the prefill; `cachedTokens` of the prompt were cached. */
  started(cachedTokens: number): void;
  /** The prefilled tokens of the prompt, cached ones included; only gateways implement it. */
  progress?(prefilledTokens: number): void;
  firstToken(): void;
  /** The answer is complete; its prefill took `prefillMs` milliseconds. */
  finished(prefillMs: number): void;
};

export type Router = {
  /** Sends a request to a node, at once or when it is due, by a single call of `dispatch`. */
  send(prompt: Prompt, dispatch: (node: number, follower?: Follower) => void): void;
  /** Receives a node's report, twice a second and shortly after a change. */
  reported?(node: number, report: NodeReport): void;
};

/** The state available to omniscient routers. */
export type Fleet = {
  readonly nodes: readonly ReplayNode[];
  readonly caches: PieceCaches;
};

/** A router that picks a node at once by a stateless rule. */
export function ruleRouter(pick: (prompt: Prompt, reports: readonly NodeReport[]) => number): Router {
  const reports: NodeReport[] = [];
  return {
    send: (prompt, dispatch) => dispatch(pick(prompt, reports)),
    reported(node, report) {
      reports[node] = report;
    },
  };
}

/** Returns the index of the smallest number, of several the first. */
export function leastOf(numbers: readonly number[]): number {
  return numbers.reduce((best, number, index) => (number < (numbers[best] ?? 0) ? index : best), 0);
}
