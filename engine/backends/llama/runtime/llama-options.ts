/** How the in-process engine is set up; the configuration file gives the defaults. */
export type LlamaOptions = {
  readonly nodeId: string;
  /** The model ids this one checkpoint is served under. */
  readonly models: readonly string[];
  /** A GGUF file. */
  readonly modelPath: string;
  /** The model's family: the name of a profile, or the path of one. Default: by what the file says of itself. */
  readonly profile?: string | undefined;
  /** Prompt and answer together, per slot; never more than the model was trained for. */
  readonly contextTokens: number;
  /** Generations at once. */
  readonly slots: number;
  /** CPU threads. "auto": one for a model below 100 MB, else one less than there are cores. */
  readonly threads: number | "auto";
  readonly gpu: "auto" | false | "cuda" | "vulkan" | "metal";
  /** Prompt tokens per step: larger is faster for one, smoother is smaller for the others. */
  readonly batchTokens: number;
  /** Requests that may wait for a slot. */
  readonly queueLength: number;
  /** How long one of them may wait, in milliseconds. */
  readonly maxQueueWaitMs: number;
};
