import { EngineKind } from "../../../../proto/gen/svc/inference/v1/node_service.ts";

export type DialectName = "vllm" | "sglang" | "llama-server";

/** The request fields beyond model, messages and `stream`; each dialect has its own names for them. */
export type RequestField =
  | "maxOutputTokens"
  | "temperature"
  | "topP"
  | "topK"
  | "minP"
  | "frequencyPenalty"
  | "presencePenalty"
  | "repetitionPenalty"
  | "seed"
  | "stop"
  | "logprobs"
  | "topLogprobs"
  | "logitBias"
  | "tools"
  | "toolChoice"
  | "parallelToolCalls"
  | "responseFormat"
  | "templateKwargs"
  | "reasoningEffort"
  | "thinkingBudget"
  | "includeReasoning"
  | "separateReasoning"
  | "streamReasoning"
  | "reasoningFormat"
  | "cacheSalt"
  | "cachePrompt"
  | "sessionId"
  | "priority"
  | "requestId"
  | "streamOptions"
  | "returnProgress"
  | "timingsPerToken"
  | "returnTokenIds"
  | "continueFinalMessage"
  | "addGenerationPrompt";

/** A variant of the chat completions API, as data. */
export type Dialect = {
  readonly name: DialectName;
  readonly engineKind: EngineKind;
  /**
   * The fields that are sent to this engine, under its own names. No other fields are sent: engines silently ignore
   * unknown keys.
   */
  readonly fields: Readonly<Partial<Record<RequestField, string>>>;
  /** The fields that the engine's token count reads; undefined for all of them. */
  readonly countFields: readonly RequestField[] | undefined;
  readonly paths: {
    readonly generate: string;
    readonly count: string;
    readonly health: string;
    readonly models: string;
    /** The paths that return the version; the first that answers counts. */
    readonly about: readonly string[];
    readonly load: readonly string[];
    /**
     * The path that closes a session under which the engine protects cached prefixes; undefined if it has no sessions.
     */
    readonly closeSession: string | undefined;
    /** The path that returns the special tokens of the model; undefined if there is none. */
    readonly tokenizer: string | undefined;
  };
  readonly countKey: string;
  /** The value of `top_k` that disables it. */
  readonly topKOff: number;
  /** The modulus of seeds. */
  readonly seeds: number;
  /** The engine's sign of a higher priority, which goes first here: 1 for higher values, -1 for lower ones. */
  readonly prioritySign: 1 | -1;
  /** Whether the node matches stop strings, as the engine does not report which one matched. */
  readonly stopsInNode: boolean;
  /** Whether the engine rejects more output tokens than fit, instead of ending there. */
  readonly refusesLongOutput: boolean;
  /** Whether a named tool can be required, not just any. */
  readonly namesTools: boolean;
  /** Whether the continuation of a begun message repeats its text. */
  readonly echoesBegun: boolean;
  /** Whether the engine returns log probabilities in a stream that may contain tool calls. */
  readonly logprobsBesideTools: boolean;
  readonly kvEvents: boolean;
  /** Whether the KV events report each stored and removed copy of a block. */
  readonly countsBlockCopies: boolean;
};

const SHARED = {
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  minP: "min_p",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  seed: "seed",
  logprobs: "logprobs",
  topLogprobs: "top_logprobs",
  logitBias: "logit_bias",
  tools: "tools",
  toolChoice: "tool_choice",
  parallelToolCalls: "parallel_tool_calls",
  responseFormat: "response_format",
  templateKwargs: "chat_template_kwargs",
  streamOptions: "stream_options",
} as const;

/** The dialect of vLLM: https://docs.vllm.ai/en/stable/serving/online_serving/openai_compatible_server/ */
const VLLM: Dialect = {
  name: "vllm",
  engineKind: EngineKind.VLLM,
  fields: {
    ...SHARED,
    maxOutputTokens: "max_completion_tokens",
    repetitionPenalty: "repetition_penalty",
    stop: "stop",
    thinkingBudget: "thinking_token_budget",
    includeReasoning: "include_reasoning",
    cacheSalt: "cache_salt",
    sessionId: "session_id",
    priority: "priority",
    requestId: "request_id",
    continueFinalMessage: "continue_final_message",
    addGenerationPrompt: "add_generation_prompt",
    returnTokenIds: "return_token_ids",
  },
  countFields: ["tools", "templateKwargs", "continueFinalMessage", "addGenerationPrompt"],
  paths: {
    generate: "/v1/chat/completions",
    count: "/tokenize",
    health: "/health",
    models: "/v1/models",
    about: ["/version"],
    load: ["/metrics"],
    closeSession: undefined,
    tokenizer: "/tokenizer_info",
  },
  countKey: "count",
  topKOff: -1,
  seeds: 2 ** 53,
  prioritySign: -1,
  stopsInNode: false,
  refusesLongOutput: true,
  namesTools: true,
  echoesBegun: false,
  logprobsBesideTools: true,
  kvEvents: true,
  countsBlockCopies: true,
};

/** The dialect of SGLang: https://docs.sglang.io/basic_usage/openai_api_completions.html */
const SGLANG: Dialect = {
  name: "sglang",
  engineKind: EngineKind.SGLANG,
  fields: {
    ...SHARED,
    maxOutputTokens: "max_completion_tokens",
    repetitionPenalty: "repetition_penalty",
    stop: "stop",
    reasoningEffort: "reasoning_effort",
    separateReasoning: "separate_reasoning",
    streamReasoning: "stream_reasoning",
    cacheSalt: "cache_salt",
    sessionId: "session_id",
    priority: "priority",
    requestId: "rid",
    continueFinalMessage: "continue_final_message",
  },
  countFields: ["tools", "toolChoice", "reasoningEffort", "templateKwargs"],
  paths: {
    generate: "/v1/chat/completions",
    count: "/tokenize",
    health: "/health",
    models: "/v1/models",
    about: ["/server_info", "/get_server_info"],
    load: ["/v1/loads?include=core,queues", "/metrics"],
    // https://docs.sglang.io/docs/advanced_features/session_radix_cache
    closeSession: "/close_session",
    tokenizer: undefined,
  },
  countKey: "count",
  topKOff: -1,
  seeds: 2 ** 31,
  prioritySign: 1,
  stopsInNode: false,
  refusesLongOutput: true,
  namesTools: true,
  echoesBegun: false,
  logprobsBesideTools: true,
  kvEvents: true,
  countsBlockCopies: false,
};

/** The dialect of llama-server: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md */
const LLAMA_SERVER: Dialect = {
  name: "llama-server",
  engineKind: EngineKind.OPENAI_COMPATIBLE,
  fields: {
    ...SHARED,
    maxOutputTokens: "max_tokens",
    repetitionPenalty: "repeat_penalty",
    thinkingBudget: "thinking_budget_tokens",
    reasoningFormat: "reasoning_format",
    cachePrompt: "cache_prompt",
    returnProgress: "return_progress",
    timingsPerToken: "timings_per_token",
  },
  countFields: undefined,
  paths: {
    generate: "/v1/chat/completions",
    count: "/v1/chat/completions/input_tokens",
    health: "/health",
    models: "/v1/models",
    about: ["/props"],
    load: ["/metrics"],
    closeSession: undefined,
    tokenizer: undefined,
  },
  countKey: "input_tokens",
  topKOff: 0,
  // It reads 2^32 - 1 as a random seed.
  seeds: 2 ** 32 - 1,
  prioritySign: 1,
  stopsInNode: true,
  refusesLongOutput: false,
  namesTools: false,
  echoesBegun: true,
  logprobsBesideTools: false,
  kvEvents: false,
  countsBlockCopies: false,
};

export const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  vllm: VLLM,
  sglang: SGLANG,
  "llama-server": LLAMA_SERVER,
};
