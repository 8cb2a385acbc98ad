import { EngineKind } from "../../../../proto/gen/svc/inference/v1/node_service.ts";

/** The name of a dialect, as the configuration has it. */
export type DialectName = "vllm" | "sglang" | "llama-server";

/**
 * The fields that a request can carry beyond model, messages and `stream`; each dialect has its own names for these.
 */
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

/** A way of speaking the chat completions API, as data. */
export type Dialect = {
  /** The name of the dialect. */
  readonly name: DialectName;
  /** The kind of engine that a node with this dialect tells of. */
  readonly engineKind: EngineKind;
  /**
   * The fields that this engine is sent, under its own names. What is not here is never sent: the engines accept and
   * ignore keys they do not know.
   */
  readonly fields: Readonly<Partial<Record<RequestField, string>>>;
  /** The fields that the engine's token count reads; undefined for all of them. */
  readonly countFields: readonly RequestField[] | undefined;
  /** The paths of the engine's server. */
  readonly paths: {
    readonly generate: string;
    readonly count: string;
    readonly health: string;
    readonly models: string;
    /** The paths where the version stands; the first that answers counts. */
    readonly about: readonly string[];
    readonly load: readonly string[];
    /**
     * The path where a session is ended under which the engine protects cached prefixes; undefined where it does not
     * protect any.
     */
    readonly closeSession: string | undefined;
    /** The path where the engine tells the control tokens of its model; undefined where it does not. */
    readonly tokenizer: string | undefined;
  };
  /** The key of the count in the reply of the token count. */
  readonly countKey: string;
  /** The value of `top_k` that switches it off. */
  readonly topKOff: number;
  /** The number that seeds are taken modulo. */
  readonly seeds: number;
  /** The sign of a higher priority, which runs earlier here, to the engine: 1 for higher, -1 for lower. */
  readonly prioritySign: 1 | -1;
  /** Whether the node looks for stop strings itself, as the engine's reply does not say which one it met. */
  readonly stopsInNode: boolean;
  /** Whether the engine refuses more output tokens than there is room for, instead of ending there. */
  readonly refusesLongOutput: boolean;
  /** Whether the engine can be told which tool has to be called, rather than that one has to be. */
  readonly namesTools: boolean;
  /** Whether an answer to a message that was begun has the text of that message first. */
  readonly echoesBegun: boolean;
  /** Whether the engine gives log probabilities in a stream that may hold tool calls. */
  readonly logprobsBesideTools: boolean;
  /** Whether the engine publishes KV events. */
  readonly kvEvents: boolean;
  /** Whether the KV events tell of each copy of a block that is stored and removed. */
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
  // It takes 2^32 - 1 as "choose one yourself".
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

/** All dialects by name. */
export const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  vllm: VLLM,
  sglang: SGLANG,
  "llama-server": LLAMA_SERVER,
};
