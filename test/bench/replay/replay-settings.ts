import { REPLAY_POLICIES, type ReplayPolicy } from "./replay-policies.ts";

/** What the replay runs: every combination of policy, gateways, sessions a node and seed. */
export type ReplaySettings = {
  /** The file with the trace, which may be compressed with gzip; undefined for the slice of sessions beside the bench. */
  readonly trace: string | undefined;
  /** The number of nodes. */
  readonly nodes: number;
  /**
   * The most prompts that a node prefills at once: 1 where each waits for those before it, as in vLLM by default; more where
   * they share the node's steps, as with llama.cpp on nodes of this project.
   */
  readonly prefillsAtOnce: number;
  /** The numbers of gateways that share nothing. */
  readonly gateways: readonly number[];
  /** The numbers of sessions for each node; a trace of arrivals has a load of its own. */
  readonly sessionsPerNode: readonly number[];
  /** The seeds, over which the figures are means. */
  readonly seeds: readonly number[];
  /** The policies; the oracle, which the others are held against, runs anyway. */
  readonly policies: readonly ReplayPolicy[];
};

/** All policies that can be replayed, in the order of the table. */
export const ALL_REPLAY_POLICIES: readonly ReplayPolicy[] = Object.keys(REPLAY_POLICIES).filter(isReplayPolicy);

/** Returns whether a word names a policy that can be replayed. */
export function isReplayPolicy(name: string): name is ReplayPolicy {
  return Object.hasOwn(REPLAY_POLICIES, name);
}
