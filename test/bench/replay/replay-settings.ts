import { REPLAY_POLICIES, type ReplayPolicy } from "./replay-policies.ts";

/** The extent of a replay: every combination of policy, gateways, sessions per node and seed. */
export type ReplaySettings = {
  /** The trace file, optionally compressed with gzip; undefined for the sessions beside the bench. */
  readonly trace: string | undefined;
  readonly nodes: number;
  /**
   * The maximum concurrent prefills of a node: 1 if each prompt waits for the previous ones, as in vLLM by default;
   * more if they share the node's steps, as with llama.cpp on this project's nodes.
   */
  readonly prefillsAtOnce: number;
  /** The numbers of gateways, which share no state. */
  readonly gateways: readonly number[];
  /** The numbers of sessions per node; a trace of arrivals has its own load. */
  readonly sessionsPerNode: readonly number[];
  /** The seeds; figures are means over them. */
  readonly seeds: readonly number[];
  /** The policies; the oracle, their baseline, always runs. */
  readonly policies: readonly ReplayPolicy[];
};

export const ALL_REPLAY_POLICIES: readonly ReplayPolicy[] = Object.keys(REPLAY_POLICIES).filter(isReplayPolicy);

export function isReplayPolicy(name: string): name is ReplayPolicy {
  return Object.hasOwn(REPLAY_POLICIES, name);
}
