import type { EvictionOrder } from "./replay/piece-cache.ts";
import type { NodesLike } from "./replay/replay.ts";
import { REPLAY_POLICIES, type ReplayPolicy } from "./replay/routers.ts";

/** What the command line names, where not by its own default. */
export type BenchSettings = {
  readonly seconds: number;
  readonly repetitions: number;
  /** Smaller loads too: for a quick check, not for a release. */
  readonly quick: boolean;
  /** Every cell and every target of the stand, which takes hours. */
  readonly full: boolean;
  readonly cells?: readonly string[];
  readonly targets?: readonly string[];
  readonly page?: string;
  /** The folder with public data. Default: none; only the project's own data is measured. */
  readonly data?: string;
  /** The model file of `llama`, and one more of `schemas`. Default: the demonstration model. */
  readonly model?: string;
  /** The binary of llama-server. Default: none; a node is compared with llama.cpp's own call only. */
  readonly llamaServer?: string;
  /** The base URL of a vLLM with the demonstration weights. Default: none; only grammars are judged. */
  readonly vllm?: string;
  /** The trace file, optionally compressed with gzip. Default: the sessions beside the bench. */
  readonly trace?: string;
  readonly nodes: number;
  /** The number of these that only read prompts for the others. */
  readonly prefillNodes: number;
  /** The data-parallel ranks of a node, of which each has a cache and a row. */
  readonly ranks: number;
  /** The tokens of each cache. */
  readonly cacheTokens: number;
  /** The slots of each cache, of one conversation and an equal share of the tokens. Default: none; all share them. */
  readonly slots?: number;
  /** The order in which a full cache drops prefixes. */
  readonly evict: EvictionOrder;
  /** The host memory behind each cache, in tokens; 0 for none. */
  readonly hostTokens: number;
  /** The most concurrent prefills of a node: 1 as in vLLM by default, more with llama.cpp on this project's nodes. */
  readonly prefillsAtOnce: number;
  readonly nodesLike: NodesLike;
  /** When the engines' KV events stop, in minutes. Default: never. */
  readonly eventsStopAt?: number;
  readonly gateways: readonly number[];
  readonly sessionsPerNode: readonly number[];
  readonly seed: readonly number[];
  readonly policies: readonly ReplayPolicy[];
  readonly scale: ScaleSettings;
};

export const ALL_REPLAY_POLICIES = Object.keys(REPLAY_POLICIES) as readonly ReplayPolicy[];

export type ScaleSettings = {
  readonly endpoints: number;
  readonly keys: number;
  /** Concurrent streams over all gateways, each with its own key and one delta per second. Default: 5,000. */
  readonly streams: number;
  readonly gateways: number;
};

export const WHOLE_SCALE: ScaleSettings = { endpoints: 1_000, keys: 100_000, streams: 5_000, gateways: 4 };
export const QUICK_SCALE: ScaleSettings = { endpoints: 50, keys: 2_000, streams: 100, gateways: 2 };

/** Returns the address, without port, of an endpoint by its index; on Linux all of them are local. */
export function endpointHost(number: number): string {
  return `127.0.${1 + Math.floor(number / 250)}.${1 + (number % 250)}`;
}
