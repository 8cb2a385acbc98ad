import type { PieceCaches } from "../piece-cache.ts";
import type { Prompt } from "../prompt.ts";
import type { NodeReport, ReplayNode } from "../replay-node.ts";

/** Who follows a request for the gateway that sent it. */
export type Follower = {
  /** The node has taken the prompt up, and found `cachedTokens` of it in its cache. */
  started(cachedTokens: number): void;
  /** The node has prefilled so many tokens of the prompt, cached ones included; only gateways listen. */
  progress?(prefilledTokens: number): void;
  firstToken(): void;
  /** The answer is whole; the prompt was prefilled in `prefillMs` milliseconds. */
  finished(prefillMs: number): void;
};

/** What a gateway knows and does about the way of requests. */
export type Router = {
  /** Sends a request to a node, at once or when its turn has come, by calling `dispatch` once. */
  send(prompt: Prompt, dispatch: (node: number, follower?: Follower) => void): void;
  /** Takes what a node says of itself, twice a second and shortly after a change. */
  reported?(node: number, report: NodeReport): void;
};

/** What routers that know everything look at. */
export type Fleet = {
  readonly nodes: readonly ReplayNode[];
  readonly caches: PieceCaches;
};

/** A router that picks a node on the spot, by a rule without a memory. */
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
