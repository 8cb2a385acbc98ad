/*
 * The meaning of every detail token: for each failure of a request, its effect on log, statistics, limits and retries.
 * The code chooses a token when it makes an `ApiError`; a token never holds text of a caller, an engine or a library.
 * `ErrorCode` is for the caller; the token is for operators, as Envoy's response code details are.
 */

/**
 * The response flags of Envoy that this gateway can determine, with their meanings. The access log joins those of a
 * request by commas in `response_flags`, and writes `-` if there are none.
 */
export const RESPONSE_FLAGS = {
  UH: "No endpoint could accept the request: none was healthy, or they were draining or not ready.",
  UF: "No connection to the endpoint could be opened.",
  UC: "The connection to the endpoint was lost.",
  UR: "The endpoint aborted the call.",
  UO: "The request was not sent to an endpoint: a queue was full or too slow, or the request has killed engines.",
  UT: "The endpoint took longer than a time limit allows.",
  UPE: "The endpoint broke the protocol between gateway and engine.",
  URX: "Every attempt that the retry policy allowed has failed.",
  NR: "No route has the path or the method of the request.",
  NC: "No cluster serves the model.",
  DC: "The client closed the connection before its answer was complete.",
  DPE: "The request was ambiguous HTTP, or took too long to arrive.",
  SI: "The client read no byte of its answer for too long.",
  RL: "A limit of the API key refused the request.",
  OM: "The overload manager of this gateway refused the request.",
  LR: "This gateway ended the answer because it had to stop.",
} as const;

export type ResponseFlag = keyof typeof RESPONSE_FLAGS;

/** Outcome of a request: the label of its duration and of its count in `svc_http_requests_total`. */
export type RequestOutcome = "ok" | "client_error" | "rate_limited" | "client_closed" | "server_error";

type EndReasonRow = {
  /** Outcome of a request whose status line was sent before the failure. */
  readonly outcome: RequestOutcome;
  /** Meaning of the end reason, as a complete sentence. */
  readonly meaning: string;
  /** True if the same request may succeed when it is retried at once. Default: false. */
  readonly mendedByRepeating?: true;
};

const END_REASON_TABLE = {
  complete: { outcome: "ok", meaning: "The model ended its answer." },
  length: { outcome: "ok", meaning: "The answer reached its token limit or the end of the context window." },
  client_closed: { outcome: "client_closed", meaning: "The client disconnected before its answer was complete." },
  slow_reader: {
    outcome: "client_closed",
    meaning: "The client read no byte of its answer for too long and was disconnected.",
  },
  engine_died: {
    outcome: "server_error",
    meaning: "The engine was lost or broke the protocol, and no other engine completed the answer.",
    mendedByRepeating: true,
  },
  stall: {
    outcome: "server_error",
    meaning: "The engine kept its connection and sent nothing for too long.",
    mendedByRepeating: true,
  },
  deadline: { outcome: "server_error", meaning: "The request exceeded the time limit of a request." },
  shed: {
    outcome: "server_error",
    meaning: "No engine worked on the request, because none had capacity or was ready.",
  },
  drain: {
    outcome: "server_error",
    meaning: "This gateway had to stop before the answer was complete.",
    mendedByRepeating: true,
  },
  error: { outcome: "server_error", meaning: "The request failed for another reason, which its detail token names." },
} as const satisfies Readonly<Record<string, EndReasonRow>>;

/** Why the answer to a request ended, in the access log and in `svc_stream_end_total`. */
export type EndReason = keyof typeof END_REASON_TABLE;

export const END_REASONS: Readonly<Record<EndReason, EndReasonRow>> = END_REASON_TABLE;

/**
 * Cost of a failed request for its key, from least to most. A failure that the request itself may have caused on a node
 * is charged, so that a caller who kills or stalls nodes is slowed down; a failure that is certainly the service's is
 * not.
 * - `nothing`: the service had no capacity, was not ready or had to stop. Neither the request nor tokens are charged.
 * - `request`: the request counts against requests per minute, and no tokens.
 * - `work`: an engine had accepted the request. The request counts, and so do its tokens. Rates per minute keep the
 *   input that the engine counted, or the estimate if it did not count it; the daily quota keeps only counted tokens,
 *   so that callers pay only for tokens that an engine has processed.
 * The attempt with the highest cost decides. A request whose deltas have reached the caller is charged for these,
 * whatever ended it.
 */
export const REQUEST_COSTS = ["nothing", "request", "work"] as const;

export type RequestCost = (typeof REQUEST_COSTS)[number];

/** The properties of every request that failed with one token. */
export type OutcomeRow = {
  /** Meaning of the token, as a complete sentence. */
  readonly meaning: string;
  /** Response flag of the access log. Default: none, as for an invalid body or a wrong key. */
  readonly flag?: ResponseFlag;
  /** End reason of an answer that failed with the token. Default: `error`. */
  readonly end?: EndReason;
  /** Counter of failed calls to endpoints, `svc_cluster_upstream_rq_…_total`. Default: none. */
  readonly attemptStat?: "timeout" | "per_try_timeout" | "rx_reset";
  /** True if no other endpoint could have succeeded, so that the flag for exhausted retries is not set. */
  readonly final?: true;
  /** True if no engine has worked on the request, so that a retry does not count against the retry budget. */
  readonly untouched?: true;
  /** Label `dim` of `svc_ratelimit_decisions_total` for the refusal. Only tokens of rate limits have one. */
  readonly dim?: string;
  /** Cost for the key. Default: `request`. */
  readonly cost?: RequestCost;
  /** The setting of an agent that prevents the failure. Default: none. */
  readonly setting?: AgentSetting;
};

/** Settings of agents: the model, hosted tools, the context window, the effort of reasoning. */
export type AgentSetting = "model" | "hosted" | "window" | "effort";

/** No engine worked on the request, because none had capacity or was ready. */
const SHED = { end: "shed", cost: "nothing" } as const;
/** The engine was lost while it worked on the request. */
const LOST = { end: "engine_died", cost: "work" } as const;
const RESET = { ...LOST, attemptStat: "rx_reset" } as const;
/** The engine kept its connection and sent nothing in time. */
const STALLED = { flag: "UT", end: "stall", attemptStat: "per_try_timeout", cost: "work" } as const;
/** A limit of the key refused the request. */
const limited = <const Dim extends string>(dim: Dim, meaning: string) => ({ meaning, flag: "RL", dim }) as const;

/** Tokens that equal an error code, for errors without further distinction. */
const OF_CODES = {
  invalid_json: { meaning: "The body is not valid JSON." },
  missing_required_parameter: { meaning: "A required field of the body is missing." },
  invalid_type: { meaning: "A field of the body has the wrong type." },
  integer_below_min_value: { meaning: "An integer in the body is below the minimum of its field." },
  integer_above_max_value: { meaning: "An integer in the body is above the maximum of its field." },
  decimal_below_min_value: { meaning: "A number in the body is below the minimum of its field." },
  decimal_above_max_value: { meaning: "A number in the body is above the maximum of its field." },
  string_above_max_length: { meaning: "A string in the body is too long for its field." },
  array_above_max_length: { meaning: "An array in the body has too many items for its field." },
  empty_array: { meaning: "An array in the body is empty where at least one item is required." },
  invalid_value: { meaning: "A field of the body has an invalid value." },
  unsupported_parameter: { meaning: "The body uses a field that this service does not support." },
  unsupported_value: { meaning: "A field of the body has a value that this service or the model does not support." },
  unknown_parameter: { meaning: "The body has an unknown key at its top level." },
  invalid_json_schema: { meaning: "The JSON Schema for the answer cannot be used." },
  invalid_function_parameters: { meaning: "The JSON Schema of a tool's parameters cannot be used." },
  context_length_exceeded: { meaning: "The prompt is longer than the context window of the model.", setting: "window" },
  unknown_model: { meaning: "The catalog does not have the model of the body.", flag: "NC", setting: "model" },
  model_not_found: {
    meaning: "The model does not exist, the key may not use it, or no cluster of this gateway serves it.",
  },
  bad_request: { meaning: "The request cannot be read." },
  invalid_api_key: { meaning: "The API key is not valid." },
  permission_denied: { meaning: "The API key has no permission for the request." },
  unknown_url: { meaning: "No route has the path of the request.", flag: "NR" },
  method_not_allowed: { meaning: "The route does not accept the method of the request.", flag: "NR" },
  upgrade_required: {
    meaning: "The request asks for another protocol than HTTP, or for a WebSocket that is not wanted now.",
    flag: "NR",
  },
  previous_response_not_found: { meaning: "The WebSocket does not keep the response that is continued." },
  invalid_stream_id: { meaning: "The name of a stream has no valid form." },
  websocket_stream_limit_reached: { meaning: "The WebSocket has had its maximum of streams." },
  websocket_connection_limit_reached: {
    meaning: "The WebSocket is about to close.",
    cost: "nothing",
  },
  request_timeout: { meaning: "The request took too long to arrive.", flag: "DPE" },
  request_too_large: { meaning: "The body is larger than the service or the key allows." },
  unsupported_media_type: { meaning: "The content type of the body is not application/json." },
  expectation_failed: { meaning: "The header `expect` is not `100-continue`.", flag: "DPE" },
  header_fields_too_large: { meaning: "The header fields are too many or too large.", flag: "DPE" },
  rate_limit_exceeded: { meaning: "A limit of the API key refused the request.", flag: "RL" },
  insufficient_quota: { meaning: "The quota of the API key is used up.", flag: "RL" },
  server_is_overloaded: { ...SHED, meaning: "The service had no capacity for the request.", flag: "UO" },
  upstream_error: { ...LOST, meaning: "The engine failed.", flag: "UR" },
  engine_unavailable: { ...LOST, meaning: "The engine was lost.", flag: "UC" },
  timeout: {
    meaning: "The request exceeded the time limit of a request.",
    ...{ flag: "UT", end: "deadline", final: true, cost: "work" },
  },
  server_error: { meaning: "The gateway failed." },
} as const satisfies Readonly<Record<string, OutcomeRow>>;

/** Tokens of refusals before an engine is called: the connection, the key, its limits, the body. */
const OF_REFUSALS = {
  unclear_version: { meaning: "The HTTP version is neither 1.0 nor 1.1.", flag: "DPE" },
  unclear_target: { meaning: "The request target is neither a path nor an `http` URL.", flag: "DPE" },
  unclear_host: { meaning: "A request of HTTP/1.1 has no header `host`.", flag: "DPE" },
  unclear_transfer_encoding: { meaning: "The header `transfer-encoding` is not `chunked`.", flag: "DPE" },
  unclear_encoding: { meaning: "The body has two content codings, or is broken or cut in its own.", flag: "DPE" },
  unsupported_encoding: { meaning: "The header `content-encoding` names an unknown content coding." },
  unclear_charset: { meaning: "The content type names another charset than UTF-8.", flag: "DPE" },
  unclear_duplicate: { meaning: "A header that must not be repeated is given more than once.", flag: "DPE" },
  api_key_missing: { meaning: "The request has no API key." },
  api_key_malformed: { meaning: "The credential of the request does not have the form of an API key." },
  api_key_invalid: { meaning: "No API key of the request is in force: it is unknown, revoked or expired." },
  credentials_duplicate: { meaning: "A header with an API key is given more than once." },
  auth_failures_exceeded: { meaning: "The client's network has sent too many wrong keys within a minute." },
  key_ended: { meaning: "An operator ended the key and its running requests (`--kill`)." },
  origin_not_allowed: {
    meaning: "A page of an origin that `listen.allowOrigins` does not name asked to call the API.",
  },
  address_not_allowed: { meaning: "The record of the key does not allow the client's address (`allowIps`)." },
  limit_store_away: {
    ...SHED,
    meaning: "The store of limits did not answer, and `state.redis.whenAway` refuses requests then.",
    flag: "OM",
  },
  api_version_malformed: { meaning: "The version header of the Messages API is not a date." },
  key_rpm_exceeded: limited("rpm", "The key has used up its requests per minute."),
  key_count_rpm_exceeded: limited("count_rpm", "The key has used up its token counts per minute."),
  key_itpm_exceeded: limited("itpm", "The key has used up its input tokens per minute."),
  key_otpm_exceeded: limited("otpm", "The key has used up its output tokens per minute."),
  key_quota_exceeded: limited("quota", "The key has used up its tokens of the day."),
  key_concurrency_exceeded: limited("concurrency", "The key has its maximum of running generations."),
  key_count_concurrency_exceeded: limited("count_concurrency", "The key has its maximum of running token counts."),
  key_model_rpm_exceeded: limited("model_rpm", "The key has used up its requests per minute for the model."),
  key_model_itpm_exceeded: limited("model_itpm", "The key has used up its input tokens per minute for the model."),
  key_model_otpm_exceeded: limited("model_otpm", "The key has used up its output tokens per minute for the model."),
  key_model_concurrency_exceeded: limited(
    "model_concurrency",
    "The key has its maximum of running generations of the model.",
  ),
  socket_queue_full: { meaning: "The WebSocket has its maximum of waiting frames.", flag: "RL" },
  key_pending_overflow: { meaning: "The key has its maximum of requests waiting for an endpoint.", flag: "RL" },
  overload_stop_accepting_requests: {
    meaning: "The gateway is overloaded and accepts no requests.",
    ...{ flag: "OM", cost: "nothing" },
  },
  overload_inflight_body_bytes: {
    meaning: "The body did not fit beside the other bodies in flight in time.",
    ...{ flag: "OM", cost: "nothing" },
  },
  overload_fixed_heap: { meaning: "The heap of the gateway is too full for the body.", flag: "OM", cost: "nothing" },
  overload_process_memory: {
    meaning: "The memory of the gateway is too full for the body.",
    ...{ flag: "OM", cost: "nothing" },
  },
  translation_given_up: {
    meaning: "Reading the body exceeded the time or the memory of its thread.",
    ...{ flag: "OM", cost: "request" },
  },
  key_body_bytes_exceeded: {
    meaning: "The body did not fit beside the other bodies of the key's owner in time.",
    flag: "RL",
  },
  downstream_remote_disconnect: {
    meaning: "The client closed the connection before its answer was complete.",
    ...{ flag: "DC", end: "client_closed", cost: "work" },
  },
  json_not_utf8: { meaning: "The bytes of the body are not UTF-8." },
  json_syntax: { meaning: "The body has a JSON syntax error." },
  json_depth: { meaning: "The JSON of the body is nested too deeply." },
  json_nodes: { meaning: "The JSON of the body has too many values." },
  json_number_not_finite: { meaning: "The body has a number that is too large for a double." },
  json_duplicate_key: { meaning: "A key at the top level of the body that must be unique is repeated." },
  json_key_not_unicode: { meaning: "The body has a key with half of a surrogate pair." },
  message_unreadable: { meaning: "The message of a gRPC call cannot be decoded." },
  message_pieces: { meaning: "The message of a gRPC call has too many parts." },
  grpc_raised: { meaning: "The call broke the rules of gRPC, for example by an unknown compression." },
  json_not_an_object: { meaning: "The body is valid JSON, but not an object." },
  vendor_tool: { meaning: "The request declares a tool that only the vendor of the format hosts.", setting: "hosted" },
  system_role_in_messages: {
    meaning: "A message has the role `system`; agents open a session with it and repeat the request without.",
    cost: "nothing",
  },
  internal_error: { meaning: "The gateway failed; the log has the error." },
} as const satisfies Readonly<Record<string, OutcomeRow>>;

/** Tokens of failures on the way to an engine, on the engine, or on the way back. */
const OF_UPSTREAM = {
  no_healthy_upstream: { ...SHED, meaning: "The model has no usable endpoint.", flag: "UH" },
  upstream_pending_overflow: { ...SHED, meaning: "The queue of the model is full.", flag: "UO" },
  upstream_count_overflow: { ...SHED, meaning: "The model has its maximum of running token counts.", flag: "UO" },
  upstream_pending_timeout: { ...SHED, meaning: "No endpoint became available in time.", flag: "UO" },
  upstream_queue_full: { ...SHED, meaning: "The queue of the engine is full.", flag: "UO" },
  upstream_draining: {
    ...SHED,
    meaning: "The engine drains and accepts no new requests.",
    flag: "UH",
    untouched: true,
  },
  upstream_loading: { ...SHED, meaning: "The engine is still loading the model.", flag: "UH" },
  upstream_model_not_served: { ...SHED, meaning: "The engine does not serve the model.", flag: "UH" },
  upstream_other_revision: {
    ...LOST,
    meaning: "The engine has another revision of the model than the engine that began the answer.",
    flag: "UH",
  },
  upstream_prefix_unknown: {
    ...LOST,
    meaning: "The engine lacks messages that were left out.",
    flag: "UPE",
  },
  upstream_hand_over_lost: {
    ...LOST,
    meaning: "The engine could not take the prompt that a prefill node had read.",
    flag: "UR",
  },
  upstream_other_answer: {
    ...LOST,
    meaning: "The engine was to continue the answer of another engine, and sent another answer.",
    flag: "UPE",
  },
  request_of_death: { meaning: "The request is refused because it has killed engines.", flag: "UO", final: true },
  request_of_death_suspected: {
    ...SHED,
    meaning: "The request is refused for a while because it may have killed engines, alone or with others.",
    flag: "UO",
  },
  upstream_connect_failure: {
    meaning: "The connection to the engine could not be opened, or was lost before the engine accepted the request.",
    ...{ flag: "UF", end: "engine_died", untouched: true, cost: "nothing" },
  },
  upstream_reset: { ...RESET, meaning: "The connection was lost while the engine worked on the request.", flag: "UC" },
  upstream_lost_on_order: {
    ...LOST,
    meaning: "The request ordered the loss of its engine (`x-svc-lose-engine`), and no other engine went on.",
    flag: "UC",
  },
  upstream_aborted: { ...RESET, meaning: "The engine aborted the request.", flag: "UR" },
  upstream_internal: { ...RESET, meaning: "The engine failed.", flag: "UR" },
  upstream_ended_early: { ...LOST, meaning: "The engine ended before the answer was complete.", flag: "UR" },
  upstream_protocol_error: {
    ...LOST,
    meaning: "The engine broke the order of events, or sent an unreadable message.",
    flag: "UPE",
  },
  upstream_message_too_large: {
    meaning: "The engine does not accept a request of this size.",
    ...{ flag: "UPE", final: true },
  },
  upstream_timeout: {
    meaning: "The request exceeded the time limit of a request.",
    ...{ flag: "UT", end: "deadline", attemptStat: "timeout", final: true, cost: "work" },
  },
  upstream_hand_over_timeout: {
    ...SHED,
    meaning: "The request could not be written to the engine in time; the engine is not at fault.",
    ...{ flag: "OM", untouched: true },
  },
  upstream_accept_timeout: { ...STALLED, meaning: "The engine did not accept the request in time." },
  upstream_per_try_timeout: { ...STALLED, meaning: "The engine did not send its first delta in time." },
  upstream_per_try_idle_timeout: { ...STALLED, meaning: "The engine sent no event for too long." },
  upstream_inter_token_timeout: { ...STALLED, meaning: "The engine sent no further delta in time." },
  engine_invalid_schema: { meaning: "The engine cannot use the JSON Schema for the answer." },
  engine_unsupported_feature: { meaning: "The model does not support a feature of the request." },
  engine_prompt_refused: {
    meaning: "The chat template of the model, or its engine, refuses the conversation; the node's log has the reason.",
  },
  engine_invalid_request: { meaning: "The engine cannot process the request." },
  drain_timeout: {
    meaning: "The gateway had to stop before the answer was complete.",
    ...{ flag: "LR", end: "drain", final: true, cost: "nothing" },
  },
} as const satisfies Readonly<Record<string, OutcomeRow>>;

const TABLE = { ...OF_CODES, ...OF_REFUSALS, ...OF_UPSTREAM };

/** Token of a failure. A token without a row in `OUTCOMES` does not compile. */
export type Detail = keyof typeof TABLE;

/** The rows of all tokens of `ApiError`. */
export const OUTCOMES: Readonly<Record<Detail, OutcomeRow>> = TABLE;

/** Returns the cost of a request whose failures have these tokens: the highest of their costs. */
export function costOf(details: Iterable<Detail>): RequestCost {
  const ranks = Array.from(details, (detail) => REQUEST_COSTS.indexOf(OUTCOMES[detail].cost ?? "request"));
  return REQUEST_COSTS[Math.max(0, ...ranks)] ?? "nothing";
}

/**
 * Returns whether the same request may succeed when it is retried at once after this token: the engine or the gateway
 * was lost. Without capacity or an endpoint, an immediate retry would only wait again.
 */
export function mendedByRepeating(detail: Detail): boolean {
  return END_REASONS[OUTCOMES[detail].end ?? "error"].mendedByRepeating === true;
}

/** Tokens of requests without a valid key. */
export const WITHOUT_KEY = [
  "api_key_missing",
  "api_key_malformed",
  "api_key_invalid",
  "auth_failures_exceeded",
] as const satisfies readonly Detail[];
