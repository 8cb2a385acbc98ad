import { EngineKind } from "../../../../proto/gen/svc/inference/v1/node_service.ts";

export type DialectName = "vllm" | "sglang" | "llama-server";

/** What a request can carry beyond model, messages and `stream`; each dialect has its own names for these. */
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
  | "continueFinalMessage"
  | "addGenerationPrompt";

/** One way of speaking the chat completions API, as data. */
export type Dialect = {
  readonly name: DialectName;
  readonly engineKind: EngineKind;
  /**
   * The fields this engine is sent, under its own names. What is not here is never sent: the engines accept and ignore
   * keys they do not know.
   */
  readonly fields: Readonly<Partial<Record<RequestField, string>>>;
  /** Of those, what its token count reads; `undefined`: all of them. */
  readonly countFields: readonly RequestField[] | undefined;
  readonly paths: {
    readonly generate: string;
    readonly count: string;
    readonly health: string;
    readonly models: string;
    /** Where the version stands; the first that answers counts. */
    readonly about: readonly string[];
    readonly load: readonly string[];
    /** Where a session is ended under which the engine protects cached prefixes; `undefined`: it does not. */
    readonly closeSession: string | undefined;
  };
  /** The key of the count in its reply. */
  readonly countKey: string;
  /** What switches `top_k` off. */
  readonly topKOff: number;
  /** Seeds are taken modulo this. */
  readonly seeds: number;
  /** Higher runs earlier here; 1 or -1 is what that means to the engine. */
  readonly prioritySign: 1 | -1;
  /** The engine's reply does not say which stop string it met: the node looks for them itself. */
  readonly stopsInNode: boolean;
  /** The engine refuses more output tokens than there is room for, instead of ending there. */
  readonly refusesLongOutput: boolean;
  /** Log probabilities in a stream that may hold tool calls. */
  readonly logprobsBesideTools: boolean;
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

/** https://docs.vllm.ai/en/stable/serving/online_serving/openai_compatible_server/ */
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
  },
  countKey: "count",
  topKOff: -1,
  seeds: 2 ** 53,
  prioritySign: -1,
  stopsInNode: false,
  refusesLongOutput: true,
  logprobsBesideTools: true,
};

/** https://docs.sglang.io/basic_usage/openai_api_completions.html */
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
  },
  countKey: "count",
  topKOff: -1,
  seeds: 2 ** 31,
  prioritySign: 1,
  stopsInNode: false,
  refusesLongOutput: true,
  logprobsBesideTools: true,
};

/** https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md */
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
  },
  countKey: "input_tokens",
  topKOff: 0,
  // It takes 2^32 - 1 as "choose one yourself".
  seeds: 2 ** 32 - 1,
  prioritySign: 1,
  stopsInNode: true,
  refusesLongOutput: false,
  logprobsBesideTools: false,
};

export const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  vllm: VLLM,
  sglang: SGLANG,
  "llama-server": LLAMA_SERVER,
};
