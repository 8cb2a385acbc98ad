import type { PromptShape } from "../../../gateway/upstream/load-balancing/boundary-hashes.ts";

export type Prompt = {
  /** The last piece of the prompt; -1 if it is shorter than a block. */
  readonly last: number;
  readonly tokens: number;
  readonly outputTokens: number;
  /** The digests and sizes that a gateway computes. */
  readonly shape: PromptShape;
  readonly affinityKey: string;
  /** The session of the request, also for sub-agents. */
  readonly session: string;
};
