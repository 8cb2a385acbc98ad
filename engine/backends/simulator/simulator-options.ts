/** What fails, for tests of those who call. */
export type InjectedFailure = "none" | { readonly afterTokens: number };

/** How the simulated engine behaves. Rates are of tokens per second. */
export type SimulatorOptions = {
  readonly nodeId: string;
  readonly models: readonly string[];
  /** Of one generation; all that run advance together, one token a step. */
  readonly tokensPerSecond: number;
  /** Of the node: prompts are read one after the other. */
  readonly prefillTokensPerSecond: number;
  /** From the end of a prompt's prefill to its first token, in milliseconds. */
  readonly timeToFirstTokenMs: number;
  /** Generations at once. */
  readonly slots: number;
  /** Requests that may wait for a slot. */
  readonly queueLength: number;
  /** Prompt and answer together. */
  readonly contextTokens: number;
  /** KV memory of the node, for what runs and for cached prefixes. */
  readonly kvTokens: number;
  /** Length of an answer that nothing else ends, both ends included. */
  readonly answerTokens: { readonly min: number; readonly max: number };
  /** By how much of itself a step may take longer or shorter, 0 to 1. */
  readonly jitter: number;
  /** Decides the texts and the jitter; the same request gets the same text from every node with this seed. */
  readonly seed: number;
  readonly failure: InjectedFailure;
  /** The steps are timed by a process of their own, whose id stands in the engine's version; absent: by the node. */
  readonly stepProcess?: boolean;
};
