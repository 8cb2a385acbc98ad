/** Advice by metric, in groups; the group names are the headings of the page. */
export type MetricActions = Readonly<Record<string, Readonly<Record<string, string>>>>;

/*
 * Advice for operators when a metric moves. A metric without a row here, and a row without a metric, fail `npm run
 * docs` and its test.
 */

export const GATEWAY_METRIC_ACTIONS: MetricActions = {
  "Requests and answers": {
    svc_http_requests_total:
      'Alert on the share of `outcome="server_error"`: the log lines of those requests have a detail token that says why. More `client_error` is mostly a new version of some client; more `rate_limited` a key that has outgrown its limits.',
    svc_request_duration_seconds:
      "Compare it with the time to the first token and the time per output token: whichever grew with it is the part to look at. If neither did, answers have become longer.",
    svc_time_to_first_token_seconds:
      'If only `cache="miss"` has more requests, prefixes are being lost: look for restarted engines or another `lbPolicy`. If hits are slow too, requests wait: look at `svc_queue_wait_seconds` and `svc_endpoint_queue`.',
    svc_time_per_output_token_seconds:
      "Engines decode more slowly: too many generations at once for the accelerator, a prompt being read beside them, or another program on the machine. Fewer `slots` per node makes each stream faster.",
    svc_answers_total:
      "More `max_output_tokens` or `context_window`: agents get cut answers; look for a smaller `max_tokens` of a new client, or for a model that repeats itself. Fewer `tool_calls` after a new model or chat template: its calls are no longer recognized.",
    svc_request_tokens:
      "The sizes of prompts and answers, for capacity planning. If `cached` falls while `input` does not, see the advice for the time to the first token.",
    svc_cache_requests_total:
      "How often each reason comes. The log line of a request has its own: `cache_reason`, with the expected and lost tokens.",
    svc_cache_lost_tokens_total:
      "Prefill that was paid for twice. `evicted`: the caches are too small for the sessions at work, add nodes or KV memory. `moved`: load decided against the cache. `belief_expired` or `other_gateway`: the nodes do not tell what they hold. `node_restarted`: nodes come and go. `client_changed` and `compaction` are the clients' doing.",
    svc_queue_wait_seconds:
      "A p95 above 10 s means too few slots for the load: add engine nodes. If only one class waits, the others outrank it: by their keys, or as agents call its requests background work.",
    svc_agent_tool_seconds:
      "How long a cached prefix waits for its conversation's next turn, where agents report it (Claude Code with `CLAUDE_CODE_GATEWAY_HINT_HEADERS=1`). Nothing acts on it: hold it against how long the caches keep prefixes.",
    svc_inter_delta_gap_seconds:
      "Gaps that users see as stutter. Long ones together with a high event loop utilization come from this gateway: add gateways. Otherwise they come from engines: look at the node's step age.",
    svc_streams_active:
      "The load to plan for. A value that never falls while no requests come is a leak worth a bug report.",
    svc_streams_paused_backpressure:
      "Many at once point at the network or at a proxy in front; each is cut when it takes nothing for 30 s.",
    svc_stream_end_total:
      "The most telling one. Alert on `engine_died` and `stall` (engines), `shed` (too little capacity) and `deadline` (limits too short). `slow_reader` and `client_closed` are the clients' doing.",
    svc_cancel_latency_seconds:
      "Above 0.1 s, engines go on working for callers who have left: look at the event loop of the gateway, then at the nodes' own `svc_engine_cancel_latency_seconds`.",
    svc_log_lines_dropped_total:
      "Whatever reads the log is too slow or stands still. Lines are lost until it reads again; requests are not held up.",
  },
  "Clusters and endpoints": {
    svc_cluster_upstream_rq_total: "Divide the rows below by it: their share tells more than their number.",
    svc_cluster_upstream_rq_active: "At the number of slots the cluster is full, and requests queue.",
    svc_cluster_upstream_rq_retry_total:
      "Tries fail. Look at `svc_cluster_upstream_rq_rx_reset_total` and `…_per_try_timeout` for the kind, and at `/clusters` on the admin port for the endpoint.",
    svc_cluster_upstream_rq_retry_success_total:
      "Far fewer than `svc_cluster_upstream_rq_retry_total` means that the fault is not one endpoint's: look for what all endpoints share.",
    svc_cluster_upstream_rq_retry_active: "Near the retry budget, further failures reach the callers.",
    svc_cluster_upstream_rq_retry_overflow_total:
      "The cluster is failing as a whole: mend it, and do not raise the budget.",
    svc_cluster_upstream_rq_continuation_total:
      "Engines are lost, fall silent or drain with answers on them. In a rolling restart that is meant; else look at the nodes, as for `svc_cluster_upstream_rq_rx_reset_total`.",
    svc_cluster_upstream_rq_continuation_active:
      "Above 0 for long, answers wait for an engine to go on with them: look at `/clusters` for those that are missing.",
    svc_continuations_total:
      'Alert on all but `outcome="went_on"`: these answers broke off. `not_kept`: engines without the capability, or no room (`svc_answers_not_kept_total`); `no_endpoint`: nothing of the same revision was there in time; `other_answer`: two nodes of one revision answer differently, which is a fault; `refused`: the engine\'s log says why; `lost_too_often` and `suspected`: something kills engines.',
    svc_continuation_gap_seconds:
      "The pause that callers see when an engine is lost. Long ones wait for an endpoint, or read long prompts anew.",
    svc_answers_not_kept_total:
      "These answers would fail with their engine. Raise `continuation.maxBytes` (`no_room`), or give the gateway more memory (`overload`, and `released` of those that were kept); `no_room_for_key` is one owner with many big prompts.",
    svc_cluster_upstream_rq_timeout_total:
      "Raise `timeouts.maxStreamDurationMs` or `timeouts.maxRequestDurationMs` if such long answers are wanted.",
    svc_cluster_upstream_rq_per_try_timeout_total:
      "Look at the step age of the node: a prefill that gets on is never ended. If it is fine, the log names the limit, as `detail`.",
    svc_cluster_upstream_rq_rx_reset_total:
      "Endpoints die or lose the connection: look at the log of the node, and at the network.",
    svc_cluster_upstream_rq_pending_active: "If it stays above 0, the cluster needs nodes.",
    svc_cluster_upstream_rq_held:
      "Above 0, a model has no endpoint and callers wait for one: start a node. It is what scaling from zero goes by.",
    svc_cluster_upstream_rq_held_bytes:
      "Near 64 MiB, further requests are answered with 503 or 529 until an endpoint is back.",
    svc_cluster_upstream_rq_pending_overflow_total: "Add nodes; a longer queue only makes everybody wait longer.",
    svc_cluster_upstream_rq_prefill_overdue_total:
      "The fleet has more sessions than its KV caches hold, or too little prefill for them. Add nodes, or KV memory.",
    svc_cluster_upstream_cx_none_healthy_total:
      "Look at `/clusters`: each endpoint has the reason why its newest health check failed.",
    svc_cluster_membership:
      "A fall that nobody meant is a node that is gone from discovery, or discovery itself: see the update counters. `SvcEndpointsGone` is raised below `svc_cluster_expected_endpoints`, or without that below the median of the last hour.",
    svc_cluster_expected_endpoints:
      "It moves with `expectedEndpoints` of the cluster alone. Set that where the number of nodes is scaled, to the least that there should be.",
    svc_cluster_membership_healthy:
      "Alert below half of `svc_cluster_membership`, and page at 0. `/clusters` says what is wrong with each.",
    svc_cluster_membership_draining: "If it stays above 0, somebody has forgotten `/undrain`.",
    svc_cluster_update_attempt_total: "If it stands still on a cluster with DNS, discovery has stopped.",
    svc_cluster_update_success_total: "Should grow as attempts do.",
    svc_cluster_update_failure_total:
      "The name server does not answer, or the file cannot be read. The last good endpoints stay in use.",
    svc_cluster_update_rejected_total:
      "The file was read and is wrong; the log says where. The last good endpoints stay in use.",
    svc_cluster_outlier_ejections_total:
      'An endpoint fails more than the others. Look at its node. Many with `enforced="false"` mean that half of the endpoints are out already, and no further ones may be: the fault is wider.',
    svc_cluster_outlier_ejections_active:
      "Above 0 for 15 minutes: the endpoint does not recover by itself. Take its node out, or uneject it on the admin port once it is mended.",
    svc_cluster_upstream_rq_count_active:
      "Beyond 128 counts at once, further ones are turned away: look which key sends so many.",
    svc_cluster_circuit_breakers_open:
      "Requests are turned away while it is 1: add nodes, or raise the limit if the nodes can bear it.",
    svc_cluster_circuit_breakers_remaining: "Alert before it is 0.",
    svc_request_of_death_total: "Look for the crash in the node's log, and report it to the engine's makers.",
    svc_queue_depth: "Read it beside `svc_queue_wait_seconds`: many who wait shortly are no trouble.",
    svc_endpoint_rq_active:
      "It shows how evenly the load is spread. With `prefix_affinity`, an endpoint above the others holds a popular prefix; that is meant, up to its slots.",
  },
  "Engines, as they report themselves": {
    svc_endpoint_slots: "A change that nobody meant: the node was restarted with another configuration.",
    svc_endpoint_running: "At `svc_endpoint_slots` the node is full.",
    svc_endpoint_queue:
      "Requests wait at the node although the gateway admits by slots: another gateway or client uses the same node.",
    svc_endpoint_kv_cache_usage_ratio:
      "Near 1, cached prefixes are thrown out early: the time to the first token will rise. Add nodes or memory.",
    svc_endpoint_tokens_per_second: "A node far below its fellows is slow or shared with another program.",
  },
  "Keys and limits": {
    svc_ratelimit_decisions_total:
      "`refused` by `dim` says which limit is hit most. The log lines name the key; raise its limit or talk to its owner. `wasted_calls`: a key floods the gRPC port with calls that it resets or that are refused; the log names it now and then, revoke it.",
    svc_ratelimit_store_seconds:
      "Above 0.01 s, asking for the counts of a key takes noticeable time: the store that gateways share is busy or far away.",
    svc_ratelimit_store_up:
      "0: this gateway applies its share of each limit, or refuses (`state.redis.whenAway`), as the store that gateways share does not answer. Look at that, and at the log for the reason. A gateway that counts for itself does not have this metric.",
    svc_auth_failures_total:
      "A burst of `api_key_invalid` is a revoked key still in use, or somebody guessing. The log lines have the network.",
    svc_key_requests_total:
      "Who the load comes from. `other` are the keys beyond `stats.keySeries`; `GET /keys/{id}/usage` has each key's own counts of 31 days.",
    svc_key_refused_total:
      "A key that is refused again and again has outgrown its limits, or is a client that runs in a loop.",
    svc_key_tokens_total:
      "Who uses how much, for shares and bills; the counts of `GET /keys/{id}/usage` are exact, those here are the rates of them.",
    svc_keystore_keys:
      "A fall nobody made: the key file was replaced by another one, or the shared store has lost keys.",
    svc_keystore_last_success_timestamp_seconds:
      "Older than the newest change of keys: the change was not taken over, see `svc_keystore_stale` and the log.",
    svc_keystore_load_errors_total:
      "The key file or the shared store could not be read or is wrong. The last good keys stay in force; the log has the reason.",
    svc_keystore_refused_records:
      "Somebody without the pepper wrote to the store, or the store has lost changes. `GET /keys/status` names the keys: change them again, or drop the records with `npm run keys -- restore`.",
    svc_keystore_went_back_total:
      "Alert on a rise: a fail-over lost changes, or an older store was put in place. Make the changes again that are missing; gateways keep records that are newer than the store's until then.",
    svc_sealing_keys:
      'Alert where gateways differ: `count(count by (key_id) (svc_sealing_keys{does="seals"})) > 1`. They have other files as `sealingKeyFile`, or none.',
    svc_sealed_texts_total:
      "Many of `unknown_key`: gateways have different sealing keys, or one was dropped too early. `refused` are those of other services and models; nothing is wrong with a few.",
    svc_keystore_stale:
      "Alert on 1: revoked keys may open the service until the file or the store is mended. `npm run keys -- doctor` says what is wrong.",
  },
  "This process": {
    svc_overload_pressure_ratio: "How near each resource is to its end. Above 0.8 for long: add gateways.",
    svc_overload_action_active:
      "Alert on 1: this gateway turns requests away to stay alive. `svc_overload_pressure_ratio` says which resource it is.",
    svc_downstream_cx_overflow_total:
      "Callers find no connection: raise `ulimit -n`, or `maxActiveDownstreamConnections` where it is set, or add gateways; many silent ones are somebody's flood.",
    svc_inflight_body_bytes: "Near `overloadManager.resourceMonitors.inflightBodyBytes.maxBytes`, new big ones wait.",
    svc_inflight_bodies_waiting:
      "Above 0 for long: bodies wait for memory, and get 503 or 429 after 10 s. Give the gateway more memory, or add gateways.",
    svc_answers_kept: "About as many as answers run; fewer, where engines cannot be continued.",
    svc_answers_kept_bytes:
      "Near `svc_answers_kept_limit_bytes`, further answers are not kept, and fail with their engine.",
    svc_answers_kept_limit_bytes: "It never moves; alert where `svc_answers_kept_bytes` is above 0.9 of it.",
    nodejs_eventloop_utilization_ratio: "Above 0.9 for long, the core is full: add gateways.",
  },
};

export const ENGINE_METRIC_ACTIONS: MetricActions = {
  Generations: {
    svc_engine_generations_total:
      "Alert on reasons that are the node's fault (errors.md has a column for that). `CANCELLED` is callers leaving, `QUEUE_FULL` too little capacity.",
    svc_engine_tokens_total:
      "`cached` as a share of `input` says how much of the prompts the prefix cache saves. If it falls, see `svc_engine_kv_cache_usage_ratio`.",
    svc_engine_time_to_first_delta_seconds:
      "Compare with `svc_engine_queue_wait_seconds`: the difference is the time to read the prompt.",
    svc_engine_time_per_output_token_seconds:
      "Slower decoding: too many slots for the machine, more `threads` than free cores, or long prompts being read beside it (`batchTokens`).",
    svc_engine_queue_wait_seconds:
      "The node is full. Gateways should queue instead: see whether something else calls the node.",
    svc_engine_count_tokens_total: "Failures other than `INVALID_REQUEST` are worth a look at the log.",
    svc_engine_schema_unchecked_total:
      "Answers that nobody looked at again. A few are broken schemas of tools; many come from schemas that cost more to check than an answer is worth, or from a queue of such work.",
    svc_engine_schema_mismatches_total:
      "Answers that break their schema. On `llama` with `strict` that is a bug to report; elsewhere it is how well the model or the engine beside the node keeps to schemas.",
    svc_engine_prefix_contradictions_total:
      "A few come from evictions. Where it grows for long, the engine's KV events are wrong or have stopped: the node's log says so, and gateways go on without them. Restart the engine.",
    svc_engine_connection_refusals_total:
      "A caller has too much open on one connection: see which one it is. If it is a gateway with honest large prompts, add nodes.",
    svc_engine_caller_work_total:
      "`failed` is a bug to report: the log has it once, and its caller lost a schema or a call, not the answer. `given_up` says that a budget of work is too generous for this machine. Many `partly` are schemas that cost more than they are worth; see whose they are.",
    svc_engine_cancel_latency_seconds:
      "Above 0.1 s, slots stay busy for callers who have left: steps of the engine take that long.",
  },
  "The node now": {
    svc_engine_running: "More than `svc_engine_slots`: some of them wait in the queue.",
    svc_engine_slots: "A change that nobody meant: the configuration, or the engine beside the node, was changed.",
    svc_engine_slots_busy: "At `svc_engine_slots` the node is full.",
    svc_engine_queue: "If it stays above 0, add nodes.",
    svc_engine_streams_paused:
      "Slow readers hold their own generations back. They keep their slots: many of them make the node look full while it idles.",
    svc_engine_kv_cache_usage_ratio:
      "Near 1, cached prefixes are thrown out early. A smaller `contextTokens` or fewer `slots` leave more room for them.",
    svc_engine_step_age_seconds:
      "Alert above 30: work is running and the engine makes no step. The node takes itself out at `maxStepAgeMs`. After ten times as long its `/livez/engine` answers 503, by which Kubernetes restarts the engine beside it; elsewhere restart the engine, or the node that runs it, if it does not come back.",
    svc_engine_info:
      "Another device than the one that was paid for, or fewer layers on it than the model has: the node's log says why, and which `contextTokens` or `slots` fit.",
    svc_engine_kv_memory_bytes: "`held` far below `reserved` for days: fewer `slots` or `contextTokens` free memory.",
    svc_engine_decoder_passes_total:
      "`gap` above a tenth of `step`: running answers take more passes than they need. Report it with the model and `slots`.",
    svc_engine_tokens_per_second:
      "The speeds that gateways route by. A fall without more load: look at the machine's clock rates and at other programs.",
    svc_engine_gpu_memory_bytes: "Near the card's size, the next growth of a cache fails. Leave some room.",
  },
};
