/** Advice by metric, in groups; the group names are the headings of the page. */
export type MetricActions = Readonly<Record<string, Readonly<Record<string, string>>>>;

/*
 * Advice for operators when a metric moves. A metric without a row here, and a row without a metric, fail `npm run
 * docs` and its test.
 */

export const GATEWAY_METRIC_ACTIONS: MetricActions = {
  "Requests and answers": {
    svc_http_requests_total:
      'Alert on the share of `outcome="server_error"`; the detail token of their log lines says why.',
    svc_request_duration_seconds:
      "Look at the part that grew with it: first token or time per token. If neither did, answers are longer.",
    svc_time_to_first_token_seconds:
      'More `cache="miss"` alone: prefixes are lost, by restarted engines or another `lbPolicy`. Hits slow too: requests wait, see `svc_queue_wait_seconds` and `svc_endpoint_queue`.',
    svc_time_per_output_token_seconds:
      "Engines decode more slowly: too many generations at once, a prompt read beside them, or another program. Fewer `slots` make each stream faster.",
    svc_answers_total:
      "More `max_output_tokens` or `context_window`: agents get cut answers, by a small `max_tokens` or a model that repeats itself. Fewer `tool_calls` after a new model or template: its calls are not recognized.",
    svc_request_tokens: "For capacity planning. If `cached` falls alone, see the time to the first token.",
    svc_cache_requests_total: "The log line of a request has its `cache_reason`, with expected and lost tokens.",
    svc_cache_lost_tokens_total:
      "Prefill paid twice. `evicted`, `slot_taken`: add nodes or KV memory. `moved`: load decided against the cache. `belief_expired`, `other_gateway`: nodes do not announce their prefixes. `reasoning_lost`: share `sealingKeyFile`. Others: the clients' doing.",
    svc_queue_wait_seconds: "p95 above 10 s: add engine nodes. If one class alone waits, the others outrank it.",
    svc_agent_tool_seconds:
      "How long a cached prefix waits for the next turn; compare it with how long caches keep prefixes.",
    svc_inter_delta_gap_seconds:
      "Stutter. With a high event loop utilization it is this gateway: add gateways. Otherwise see the nodes' step age.",
    svc_streams_active:
      "The load to plan for. A value that never falls while no requests come is a leak worth a bug report.",
    svc_streams_paused_backpressure: "Many at once point at the network or a proxy in front.",
    svc_stream_end_total:
      "Alert on `engine_died` and `stall` (engines), `shed` (capacity) and `deadline` (limits too short). `slow_reader`, `client_closed`: the clients' doing.",
    svc_cancel_latency_seconds:
      "Above 0.1 s, engines work for callers who have left: look at the event loop, then at `svc_engine_cancel_latency_seconds`.",
    svc_log_lines_dropped_total: "The reader of the log is too slow; lines are lost, requests are not held up.",
  },
  "Clusters and endpoints": {
    svc_cluster_upstream_rq_total: "Divide the rows below by it: their share says more than their number.",
    svc_cluster_upstream_rq_active: "At the number of slots the cluster is full, and requests queue.",
    svc_cluster_upstream_rq_retry_total:
      "See `svc_cluster_upstream_rq_rx_reset_total` and `…_per_try_timeout` for the kind, `/clusters` for the endpoint.",
    svc_cluster_upstream_rq_retry_success_total: "Far fewer than retries: the fault is not one endpoint's.",
    svc_cluster_upstream_rq_retry_active: "Near the retry budget, further failures reach the callers.",
    svc_cluster_upstream_rq_retry_overflow_total:
      "The cluster is failing as a whole: mend it, and do not raise the budget.",
    svc_cluster_upstream_rq_continuation_total:
      "Engines are lost or drain with answers on them: meant in a rolling restart, else look at the nodes.",
    svc_cluster_upstream_rq_continuation_active: "Above 0 for long, answers wait for an engine: see `/clusters`.",
    svc_continuations_total:
      'Alert on all but `outcome="went_on"`: these answers broke off. `not_kept`: no capacity; `no_endpoint`: none of the revision in time; `other_answer`: nodes of one revision differ, a fault; `refused`: see the engine\'s log; others: something kills engines.',
    svc_continuation_gap_seconds: "Long pauses wait for an endpoint, or read long prompts anew.",
    svc_prompt_bases_total: "Many `unknown`: nodes drop prompts early; raise `tokenCacheMegabytes` there.",
    svc_prefills_total:
      "More than one in twenty not `handed_over`: see the prefill nodes. `lost`: the engines do not reach each other, or differ; see the log of the answering node.",
    svc_answers_not_kept_total:
      "They would fail with their engine. `no_room`: raise `continuation.maxBytes`; `overload`, `released`: more memory; `no_room_for_key`: an owner has half of what the others leave.",
    svc_cluster_upstream_rq_timeout_total:
      "Raise `timeouts.maxStreamDurationMs` or `timeouts.maxRequestDurationMs` if such long answers are wanted.",
    svc_cluster_upstream_rq_per_try_timeout_total:
      "See the step age of the node; the log names the limit, as `detail`.",
    svc_cluster_upstream_rq_rx_reset_total: "Nodes die or lose the connection: see their log, and the network.",
    svc_cluster_upstream_rq_pending_active: "If it stays above 0, the cluster needs nodes.",
    svc_cluster_upstream_rq_held: "Above 0, a model has no endpoint: start a node. Scaling from zero uses it.",
    svc_cluster_upstream_rq_held_bytes:
      "Near 64 MiB, further requests are answered with 503 or 529 until an endpoint is back.",
    svc_cluster_upstream_rq_pending_overflow_total: "Add nodes; a longer queue only makes requests wait longer.",
    svc_cluster_upstream_rq_prefill_overdue_total:
      "More sessions than the KV caches hold, or too little prefill: add nodes or KV memory.",
    svc_cluster_upstream_cx_none_healthy_total:
      "Look at `/clusters`: each endpoint has the reason why its newest health check failed.",
    svc_cluster_membership:
      "An unexpected fall: a node is gone from discovery, or discovery failed. `SvcEndpointsGone` is raised.",
    svc_cluster_expected_endpoints: "Set `expectedEndpoints` where nodes are scaled, to the least number.",
    svc_cluster_membership_lost: "Above 0, a node or its host has died.",
    svc_cluster_membership_left: "Nodes that are being replaced.",
    svc_cluster_membership_healthy:
      "Alert below half of `svc_cluster_membership`, and page at 0. `/clusters` has the reason of each.",
    svc_cluster_membership_draining: "If it stays above 0, `/undrain` was forgotten.",
    svc_cluster_update_attempt_total: "If it stands still on a cluster with DNS, discovery has stopped.",
    svc_cluster_update_success_total: "Should grow as attempts do.",
    svc_cluster_update_failure_total:
      "The name server does not answer, or the file cannot be read; the last good endpoints stay.",
    svc_cluster_update_rejected_total: "The file is wrong, the log says where; the last good endpoints stay.",
    svc_cluster_outlier_ejections_total:
      'Look at the node. Many `enforced="false"`: half of the endpoints are out already, the fault is wider.',
    svc_cluster_outlier_ejections_active: "Above 0 for 15 minutes: take the node out, or uneject it once mended.",
    svc_cluster_upstream_rq_count_active: "Beyond 128 at once, further ones are refused: see which key sends so many.",
    svc_cluster_circuit_breakers_open: "Requests are refused while it is 1: add nodes, or raise the limit.",
    svc_cluster_circuit_breakers_remaining: "Alert before it is 0.",
    svc_request_of_death_total: "Look for the crash in the node's log, and report it to the engine's makers.",
    svc_queue_depth: "Read it beside `svc_queue_wait_seconds`: many who wait shortly are no trouble.",
    svc_endpoint_rq_active: "With `prefix_affinity` an endpoint above the others holds a popular prefix, as meant.",
  },
  "Engines, as they report themselves": {
    svc_endpoint_slots: "An unexpected change: the node was restarted with another configuration.",
    svc_endpoint_running: "At `svc_endpoint_slots` the node is full.",
    svc_endpoint_queue: "Another gateway or client uses the same node: this one admits by slots.",
    svc_endpoint_kv_cache_usage_ratio: "Near 1, cached prefixes are evicted early: add nodes or memory.",
    svc_endpoint_tokens_per_second: "A node far below its fellows is slow or shared with another program.",
  },
  "Keys and limits": {
    svc_ratelimit_decisions_total: "`refused` by `dim` is the limit that is hit; the log names the key.",
    svc_ratelimit_store_seconds: "Above 0.01 s the store is busy or far away.",
    svc_ratelimit_store_up:
      "0: this gateway applies its share of each limit, or refuses (`state.redis.whenAway`). Absent without a store.",
    svc_auth_failures_total:
      "A burst of `api_key_invalid` is a revoked key in use, or guessing; the log has the network.",
    svc_key_requests_total:
      "Who the load comes from. `other`: keys beyond `stats.keySeries`, see `GET /keys/{id}/usage`.",
    svc_key_refused_total: "The key has outgrown its limits, or is a client in a loop.",
    svc_key_tokens_total: "Who uses how much; the exact counts are those of `GET /keys/{id}/usage`.",
    svc_keystore_keys: "An unexpected fall: another key file, or a shared store that has lost keys.",
    svc_keystore_last_success_timestamp_seconds:
      "Older than the newest change of keys: see `svc_keystore_stale` and the log.",
    svc_keystore_load_errors_total:
      "File or store could not be read or is wrong, the log says why; the last good keys stay in force.",
    svc_keystore_refused_records:
      "The store was written without the pepper. `/keys/status` names the keys: put them back with `keys restore EXPORT`, or drop them with `keys restore`.",
    svc_keystore_went_back_total:
      "Alert on a rise: a fail-over lost changes. Gateways put back those that they knew, see `put-back` in `keys audit`.",
    svc_sealing_keys:
      'Alert where gateways differ: `count(count by (key_id) (svc_sealing_keys{does="seals"})) > 1`. They have other files as `sealingKeyFile`, or none.',
    svc_sealed_texts_total: "Many `unknown_key`: gateways have different sealing keys, or one was dropped too early.",
    svc_keystore_stale: "Alert on 1: revoked keys may still open the service. `keys doctor` says why.",
  },
  "This process": {
    svc_overload_pressure_ratio: "How near each resource is to its end. Above 0.8 for long: add gateways.",
    svc_overload_action_active:
      "Alert on 1: requests are refused to stay alive. `svc_overload_pressure_ratio` says which resource it is.",
    svc_downstream_cx_overflow_total:
      "Raise `ulimit -n` or `maxActiveDownstreamConnections`, or add gateways; many silent ones are a flood.",
    svc_inflight_body_bytes: "Near `inflightBodyBytes.maxBytes`, new big ones wait.",
    svc_inflight_bodies_waiting: "Above 0 for long: after 10 s they get 503 or 429. More memory, or more gateways.",
    svc_answers_kept: "About as many as answers run; fewer, where engines cannot be continued.",
    svc_answers_kept_bytes:
      "Near `svc_answers_kept_limit_bytes`, further answers are not kept, and fail with their engine.",
    svc_answers_kept_limit_bytes: "It never moves; alert where `svc_answers_kept_bytes` is above 0.9 of it.",
    svc_websockets_open: "At 4,096, or 32 of a key, further ones get 426, and agents use HTTP.",
    svc_websocket_ends_total: "`lost` and `slow` are the network's, `no_room` is short memory.",
    svc_websocket_frames_total: "Many `not_found`: kept conversations were dropped for memory, or sockets end early.",
    svc_websocket_kept_bytes: "They yield to bodies in flight, in the same memory.",
    svc_tls_certificate_expiry_timestamp_seconds: "Alert 14 days before; replaced files are taken at once.",
    nodejs_eventloop_utilization_ratio: "Above 0.9 for long, the core is full: add gateways.",
  },
};

export const ENGINE_METRIC_ACTIONS: MetricActions = {
  Generations: {
    svc_engine_generations_total:
      "Alert on reasons that are the node's fault (errors.md has a column for that). `CANCELLED` is callers leaving, `QUEUE_FULL` too little capacity.",
    svc_engine_tokens_total:
      "`cached` of `input` is what the prefix cache saves. If it falls, see `svc_engine_kv_cache_usage_ratio`.",
    svc_engine_time_to_first_delta_seconds:
      "Compare with `svc_engine_queue_wait_seconds`: the difference is the time to read the prompt.",
    svc_engine_time_per_output_token_seconds:
      "Too many slots, more `threads` than free cores, or long prompts read beside it (`batchTokens`).",
    svc_engine_queue_wait_seconds:
      "The node is full. Gateways should queue instead: see whether something else calls the node.",
    svc_engine_count_tokens_total: "Failures other than `INVALID_REQUEST` are worth a look at the log.",
    svc_engine_schema_unchecked_total:
      "A few are broken schemas of tools; many are costly schemas, or a queue of such work.",
    svc_engine_schema_mismatches_total:
      "On `llama` with `strict` a bug to report; elsewhere how well the model or the engine keeps to schemas.",
    svc_engine_prefix_contradictions_total:
      "A few come from evictions. Where it grows, the engine's KV events are wrong or have stopped: restart the engine.",
    svc_engine_connection_refusals_total:
      "A caller has too much open on one connection. If it is a gateway with large prompts, add nodes.",
    svc_engine_caller_work_total:
      "`failed` is a bug to report. `given_up`: a budget of work is too generous for this machine. Many `partly`: costly schemas; see whose.",
    svc_engine_cancel_latency_seconds:
      "Above 0.1 s, slots stay busy for callers who have left: steps of the engine take that long.",
  },
  "The node now": {
    svc_engine_running: "More than `svc_engine_slots`: some of them wait in the queue.",
    svc_engine_slots: "An unexpected change: of the configuration, or of the engine beside the node.",
    svc_engine_slots_busy: "At `svc_engine_slots` the node is full.",
    svc_engine_queue: "If it stays above 0, add nodes.",
    svc_engine_streams_paused: "Slow readers keep their slots: many make the node look full while it idles.",
    svc_engine_kv_cache_usage_ratio:
      "Near 1, cached prefixes are evicted early. A smaller `contextTokens` or fewer `slots` leave more room.",
    svc_engine_step_age_seconds:
      "Alert above 30: the engine makes no step. The node leaves service at `maxStepAgeMs`; after ten times as long `/livez/engine` is 503: restart the engine.",
    svc_engine_info:
      "Another device than meant, or fewer layers on it: the node's log says why, and which `contextTokens` or `slots` fit.",
    svc_engine_kv_memory_bytes: "`held` far below `reserved` for days: fewer `slots` or `contextTokens` free memory.",
    svc_engine_decoder_passes_total:
      "`gap` above a tenth of `step`: running answers take more passes than they need. Report it with the model and `slots`.",
    svc_engine_tokens_per_second:
      "Gateways route by it. A fall without more load: clock rates of the machine, other programs.",
    svc_engine_own_rendering: "0: the log says why; the engine renders, and tokenizes whole prompts.",
    svc_engine_kept_prompts_bytes: "At `tokenCacheMegabytes`, prompts are dropped before ten minutes.",
    svc_engine_prompt_tokens_total: "Few `known`: `tokenCacheMegabytes` is small, or `own_rendering` is 0.",
    svc_tls_certificate_expiry_timestamp_seconds: "As of a gateway.",
    svc_engine_gpu_memory_bytes: "Near the card's size, the next growth of a cache fails. Leave some room.",
  },
};
