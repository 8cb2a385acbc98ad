import type { PromptShape } from "../../../gateway/upstream/load-balancing/boundary-hashes.ts";

/** A request of the replay, as the nodes and the gateways see it. */
export type Prompt = {
  /** The last piece of the prompt; -1 where it is shorter than a block. */
  readonly last: number;
  /** The tokens of the prompt. */
  readonly tokens: number;
  /** The tokens of the answer. */
  readonly outputTokens: number;
  /** The digests and sizes that a gateway takes of the prompt. */
  readonly shape: PromptShape;
  /** The digest of session and agent. */
  readonly affinityKey: string;
  /** The session that the request belongs to; its sub-agents belong to it, too. */
  readonly session: string;
};
