import type { PieceCaches } from "./piece-cache.ts";
import type { RankedNode } from "./ranked-node.ts";
import type { HeldTiers, NodeReport } from "./replay-node.ts";
import type { Prompt } from "./traffic.ts";

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

/** A node that reads a prompt for the one that answers. */
export type Reader = { readonly node: number; readonly follower: Follower };

export type Router = {
  send(prompt: Prompt, dispatch: (node: number, follower?: Follower, reader?: Reader) => void): void;
  reported?(node: number, report: NodeReport): void;
};

/** What nodes announce: the contents of their caches as they believe them, and whether they announce any. */
export type AnnouncedCaches = {
  readonly held: () => HeldTiers;
  readonly isAnnounced: (node: number) => boolean;
};

export type Fleet = {
  readonly nodes: readonly RankedNode[];
  /** The data-parallel ranks of a node, of which each has a cache. */
  readonly ranks: number;
  /** The last nodes, which only read prompts for the others. */
  readonly prefillNodes: number;
  readonly caches: PieceCaches;
  /** The slots of a rank; undefined where it has none. */
  readonly slots?: number | undefined;
  readonly announced: AnnouncedCaches;
};

export function leastOf(numbers: readonly number[]): number {
  return numbers.reduce((best, number, index) => (number < (numbers[best] ?? 0) ? index : best), 0);
}
