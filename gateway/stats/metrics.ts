import type { Registry } from "prom-client";
import { certificateRow } from "../../deploy/runtime/metrics/certificate-ends.ts";
import { counter, gauge, histogram, Metrics } from "../../deploy/runtime/metrics/metric-table.ts";

/*
 * Upper bounds of the histograms: OpenTelemetry's lists for generative AI, extended, because the first token of a
 * prompt of a million tokens takes minutes.
 */

const SECONDS_TO_AN_HOUR: readonly number[] = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 655.36,
  1310.72, 3600,
];
const SECONDS_TO_FIRST_TOKEN: readonly number[] = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 600,
];
const SECONDS_PER_TOKEN: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5,
];
const SECONDS_BETWEEN_DELTAS: readonly number[] = [
  0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60,
];
const SECONDS_TO_CANCEL: readonly number[] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const SECONDS_IN_STORE: readonly number[] = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1];
const SECONDS_IN_QUEUE: readonly number[] = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160];
const POWERS_OF_FOUR: readonly number[] = Array.from({ length: 14 }, (_, power) => 4 ** power);
/** From a prefill to an outage. */
const SECONDS_TO_GO_ON: readonly number[] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160];

const REQUESTS = {
  svc_http_requests_total: counter(["route", "format", "code", "outcome"])(
    "Completed requests, by route, format, status code and outcome; code 0: the client left before a status was sent.",
    'Alert on the share of `outcome="server_error"`; the detail token of their log lines says why.',
  ),
  svc_request_duration_seconds: histogram(SECONDS_TO_AN_HOUR, ["operation", "model", "outcome"])(
    "Time from a request's arrival to the end of its answer, in seconds.",
    "Look at the part that grew with it: first token or time per token. If neither did, answers are longer.",
  ),
  svc_time_to_first_token_seconds: histogram(SECONDS_TO_FIRST_TOKEN, ["model", "cache"])(
    "Time from a request's arrival to its first delta, in seconds, by the cached share of its prompt.",
    'More `cache="miss"` alone: prefixes are lost, by restarted engines or another `lbPolicy`. Hits slow too: requests wait, see `svc_queue_wait_seconds` and `svc_endpoint_queue`.',
  ),
  svc_time_per_output_token_seconds: histogram(SECONDS_PER_TOKEN, ["model"])(
    "Mean time between the tokens of a complete answer, in seconds.",
    "Engines decode more slowly: too many generations at once, a prompt read beside them, or another program. Fewer `slots` make each stream faster.",
  ),
  svc_answers_total: counter(["model", "reason"])(
    "Complete answers, by model and by the reason for which the engine ended them.",
    "More `max_output_tokens` or `context_window`: agents get cut answers, by a small `max_tokens` or a model that repeats itself. Fewer `tool_calls` after a new model or template: its calls are not recognized.",
  ),
  svc_request_tokens: histogram(POWERS_OF_FOUR, ["model", "token_type"])(
    "Tokens of one answer by type: input, cached (a part of input), output, reasoning (a part of output).",
    "For capacity planning. If `cached` falls alone, see the time to the first token.",
  ),
  svc_cache_requests_total: counter(["model", "reason"])(
    "Prompts that an engine has read, by the reason for cache misses; hit: no avoidable misses.",
    "The log line of a request has its `cache_reason`, with expected and lost tokens.",
  ),
  svc_cache_lost_tokens_total: counter(["model", "reason"])(
    "Prompt tokens that could have been cached by their engine and were not, by reason.",
    "Prefill paid twice. `evicted`, `slot_taken`: add nodes or KV memory. `moved`: load decided against the cache. `belief_expired`, `other_gateway`: nodes do not announce their prefixes. `reasoning_lost`: share `sealingKeyFile`. Others: the clients' doing.",
  ),
  svc_queue_wait_seconds: histogram(SECONDS_IN_QUEUE, ["model", "class"])(
    "Time from the dispatch of a request to its acceptance by an engine, in seconds, by the class it waited in.",
    "p95 above 10 s: add engine nodes. If one class alone waits, the others outrank it.",
  ),
  svc_agent_tool_seconds: histogram(SECONDS_TO_AN_HOUR)(
    "Time that agents' tools ran before the request with their results, in seconds, as agents report it.",
    "How long a cached prefix waits for the next turn; compare it with how long caches keep prefixes.",
  ),
  svc_inter_delta_gap_seconds: histogram(SECONDS_BETWEEN_DELTAS, ["model"])(
    "Time between two deltas of one event stream, in seconds, by model.",
    "Stutter. With a high event loop utilization it is this gateway: add gateways. Otherwise see the nodes' step age.",
  ),
  svc_streams_active: gauge(["format"])(
    "Open event streams, by format.",
    "The load to plan for. A value that never falls while no requests come is a leak worth a bug report.",
  ),
  svc_streams_paused_backpressure: gauge(["format"])(
    "Open event streams that wait for a slow reader, by format.",
    "Many at once point at the network or a proxy in front.",
  ),
  svc_stream_end_total: counter(["format", "reason"])(
    "Ended event streams, by format and end reason.",
    "Alert on `engine_died` and `stall` (engines), `shed` (capacity) and `deadline` (limits too short). `slow_reader`, `client_closed`: the clients' doing.",
  ),
  svc_cancel_latency_seconds: histogram(SECONDS_TO_CANCEL)(
    "Time from a client's disconnect to the end of its call to the engine, in seconds.",
    "Above 0.1 s, engines work for callers who have left: look at the event loop, then at `svc_engine_cancel_latency_seconds`.",
  ),
  svc_log_lines_dropped_total: counter()(
    "Log lines that were dropped because the log's reader was too slow.",
    "The reader of the log is too slow; lines are lost, requests are not held up.",
  ),
};

const CLUSTERS = {
  svc_cluster_upstream_rq_total: counter(["cluster"])(
    "Calls to endpoints of the cluster, retries included.",
    "Divide the rows below by it: their share says more than their number.",
  ),
  svc_cluster_upstream_rq_active: gauge(["cluster"])(
    "Open calls to endpoints of the cluster.",
    "At the number of slots the cluster is full, and requests queue.",
  ),
  svc_cluster_upstream_rq_retry_total: counter(["cluster"])(
    "Calls to endpoints that retried a failed one.",
    "See `svc_cluster_upstream_rq_rx_reset_total` and `…_per_try_timeout` for the kind, `/clusters` for the endpoint.",
  ),
  svc_cluster_upstream_rq_retry_success_total: counter(["cluster"])(
    "Retries that were answered completely.",
    "Far fewer than retries: the fault is not one endpoint's.",
  ),
  svc_cluster_upstream_rq_retry_active: gauge(["cluster"])(
    "Calls that repeat a failed one and are open now.",
    "Near the retry budget, further failures reach the callers.",
  ),
  svc_cluster_upstream_rq_retry_overflow_total: counter(["cluster"])(
    "Repeated calls that the cluster's retry budget did not allow.",
    "The cluster is failing as a whole: look for what its nodes share, such as a release.",
  ),
  svc_cluster_upstream_rq_continuation_total: counter(["cluster"])(
    "Calls to endpoints that continued the answer of a lost one.",
    "Engines are lost or drain with answers on them: meant in a rolling restart, else look at the nodes.",
  ),
  svc_cluster_upstream_rq_continuation_active: gauge(["cluster"])(
    "Requests that have lost their engine and that no other one has taken up yet.",
    "Above 0 for long, answers wait for an engine: see `/clusters`.",
  ),
  svc_continuations_total: counter(["cluster", "outcome"])(
    "Answers that lost their engine before their end, by outcome: went_on, or why no other engine continued them.",
    'Alert on all but `outcome="went_on"`: these answers broke off. `not_kept`: no capacity; `no_endpoint`: none of the revision in time; `other_answer`: nodes of one revision differ, a fault; `refused`: see the engine\'s log; others: something kills engines.',
  ),
  svc_continuation_gap_seconds: histogram(SECONDS_TO_GO_ON, ["cluster"])(
    "Time from the loss of an answer's engine to the first new event from another one, in seconds.",
    "Long pauses wait for an endpoint, or read long prompts anew.",
  ),
  svc_prompt_bases_total: counter(["cluster", "base"])(
    "Calls that left out messages the endpoint had, by base: found, or unknown, then sent whole.",
    "Many `unknown`: nodes drop prompts early; raise `tokenCacheMegabytes` there.",
  ),
  svc_prefills_total: counter(["cluster", "outcome"])(
    "Prompts sent to a prefill node, by outcome: handed_over, or not: not_kept, failed, late, cancelled; and lost: handed over, and not taken.",
    "More than one in twenty not `handed_over`: see the prefill nodes. `lost`: the engines do not reach each other, or differ; see the log of the answering node.",
  ),
  svc_answers_not_kept_total: counter(["cluster", "reason"])(
    "Answers not kept for continuation, or not any more, by reason: no_room, no_room_for_key, overload, released.",
    "They would fail with their engine. `no_room`: raise `continuation.maxBytes`; `overload`, `released`: more memory; `no_room_for_key`: an owner has half of what the others leave.",
  ),
  svc_cluster_upstream_rq_timeout_total: counter(["cluster"])(
    "Calls that ended at the time limit of their request.",
    "Raise `timeouts.maxStreamDurationMs` or `timeouts.maxRequestDurationMs` if such long answers are wanted.",
  ),
  svc_cluster_upstream_rq_per_try_timeout_total: counter(["cluster"])(
    "Calls that ended at a time limit of one attempt: acceptance, first token, silence, or between tokens.",
    "See the step age of the node; the log names the limit, as `detail`.",
  ),
  svc_cluster_upstream_rq_rx_reset_total: counter(["cluster"])(
    "Calls that were reset by the endpoint or its connection.",
    "Nodes die or lose the connection: see their log, and the network.",
  ),
  svc_cluster_upstream_rq_pending_active: gauge(["cluster"])(
    "Requests that wait for an endpoint of the cluster now, those included that are held while none is available.",
    "If it stays above 0, the cluster needs nodes.",
  ),
  svc_cluster_upstream_rq_held: gauge(["cluster"])(
    "Requests that are held now because no endpoint of the cluster is available; they count in upstream_rq_pending_active, too.",
    "Above 0, a model has no endpoint: start a node. Scaling from zero uses it.",
  ),
  svc_cluster_upstream_rq_held_bytes: gauge(["cluster"])(
    "The size of the bodies of the requests that are held now because no endpoint of the cluster is available, in bytes.",
    "Near 64 MiB, further requests are answered with 503 or 529 until an endpoint is back.",
  ),
  svc_cluster_upstream_rq_pending_overflow_total: counter(["cluster"])(
    "Requests that found the cluster's queue full.",
    "Add nodes; a longer queue only makes requests wait longer.",
  ),
  svc_cluster_upstream_rq_prefill_overdue_total: counter(["cluster"])(
    "Requests that were served only after the longest wait for their prefill.",
    "More sessions than the KV caches hold, or too little prefill: add nodes or KV memory.",
  ),
  svc_cluster_upstream_cx_none_healthy_total: counter(["cluster"])(
    "Requests that found no healthy endpoint in the cluster.",
    "Look at `/clusters`: each endpoint has the reason why its newest health check failed.",
  ),
  svc_cluster_membership: gauge(["cluster"])(
    "Endpoints of the cluster, whatever their state.",
    "An unexpected fall: a node is gone from discovery, or discovery failed. `SvcEndpointsGone` is raised.",
  ),
  svc_cluster_expected_endpoints: gauge(["cluster"])(
    "Endpoints that the cluster should have, where its configuration says so (expectedEndpoints).",
    "Set `expectedEndpoints` where nodes are scaled, to the least number.",
  ),
  svc_cluster_membership_lost: gauge(["cluster"])(
    "Endpoints that discovery has dropped although no operator drained them and they had not announced to leave, until as many have joined.",
    "Above 0, a node or its host has died.",
  ),
  svc_cluster_membership_left: gauge(["cluster"])(
    "Endpoints that left as announced or ordered within two hours, and that none has replaced.",
    "Nodes that are being replaced.",
  ),
  svc_cluster_membership_healthy: gauge(["cluster"])(
    "Endpoints of the cluster that are healthy and may get requests.",
    "Alert below half of `svc_cluster_membership`, and page at 0. `/clusters` has the reason of each.",
  ),
  svc_cluster_membership_draining: gauge(["cluster"])(
    "Endpoints of the cluster that drain and get no new requests.",
    "If it stays above 0, `/undrain` was forgotten.",
  ),
  svc_cluster_update_attempt_total: counter(["cluster"])(
    "Look-ups of the cluster's endpoints by discovery: DNS queries, or reads of the endpoint file.",
    "If it stands still on a cluster with DNS, discovery has stopped.",
  ),
  svc_cluster_update_success_total: counter(["cluster"])(
    "Look-ups by discovery whose answer could be used.",
    "Should grow as attempts do.",
  ),
  svc_cluster_update_failure_total: counter(["cluster"])(
    "Look-ups by discovery that got no answer.",
    "The name server does not answer, or the file cannot be read; the last good endpoints stay.",
  ),
  svc_cluster_update_rejected_total: counter(["cluster"])(
    "Look-ups by discovery whose answer could not be used; the endpoints stayed as they were.",
    "The file is wrong, the log says where; the last good endpoints stay.",
  ),
  svc_cluster_outlier_ejections_total: counter(["cluster", "type", "enforced"])(
    "Outliers: endpoints with consecutive failed calls; enforced=false: not ejected, because too many already were.",
    'Look at the node. Many `enforced="false"`: half of the endpoints are out already, the fault is wider.',
  ),
  svc_cluster_outlier_ejections_active: gauge(["cluster"])(
    "Endpoints of the cluster that are ejected as outliers now.",
    "Above 0 for 15 minutes: take the node out, or uneject it once mended.",
  ),
  svc_cluster_upstream_rq_count_active: gauge(["cluster"])(
    "Token counts that endpoints of the cluster are asked for now.",
    "Beyond 128 at once, further ones are refused: see which key sends so many.",
  ),
  svc_cluster_circuit_breakers_open: gauge(["cluster", "kind"])(
    "1 while a limit of the circuit breaker is reached, by kind: requests that run (rq) or wait (rq_pending); else 0.",
    "Requests are refused while it is 1: add nodes, or raise the limit.",
  ),
  svc_cluster_circuit_breakers_remaining: gauge(["cluster", "kind"])(
    "Requests until a limit of the circuit breaker is reached, by kind: requests that run (rq) or wait (rq_pending).",
    "Alert before it is 0.",
  ),
  svc_request_of_death_total: counter(["cluster"])(
    "Requests that were refused because similar ones made endpoints of the cluster fail.",
    "Look for the crash in the node's log, and report it to the engine's makers.",
  ),
  svc_queue_depth: gauge(["model", "class"])(
    "Requests that wait for an endpoint of the model now, by class of service.",
    "Read it beside `svc_queue_wait_seconds`: many who wait shortly are no trouble.",
  ),
  svc_endpoint_rq_active: gauge(["endpoint"])(
    "Calls of this gateway that are open on the endpoint, for all its models.",
    "With `prefix_affinity` an endpoint above the others holds a popular prefix, as meant.",
  ),
};

const ENGINES = {
  svc_endpoint_slots: gauge(["cluster", "endpoint"])(
    "Generations that the endpoint can run at once, by cluster.",
    "An unexpected change: the node was restarted with another configuration.",
  ),
  svc_endpoint_running: gauge(["cluster", "endpoint"])(
    "Generations of all gateways that run on the endpoint, as it reports; 0 where it reports nothing.",
    "At `svc_endpoint_slots` the node is full.",
  ),
  svc_endpoint_queue: gauge(["cluster", "endpoint"])(
    "Generations of all gateways that wait in the endpoint's queue, as it reports; 0 where it reports nothing.",
    "Another gateway or client uses the same node: this one admits by slots.",
  ),
  svc_endpoint_kv_cache_usage_ratio: gauge(["cluster", "endpoint"])(
    "Share of the endpoint's KV memory in use, 0 to 1, as it reports; 0 where it reports nothing.",
    "Near 1, cached prefixes are evicted early: add nodes or memory.",
  ),
  svc_endpoint_tokens_per_second: gauge(["cluster", "endpoint"])(
    "Tokens per second that one generation on the endpoint gets, as it reports; 0 where it reports nothing.",
    "A node far below its fellows is slow or shared with another program.",
  ),
};

const KEYS = {
  svc_ratelimit_decisions_total: counter(["dim", "decision"])(
    "Decisions about the limits of requests' keys, by result and by the limit that refused (dim; all: none did).",
    "`refused` by `dim` is the limit that is hit; the log names the key.",
  ),
  svc_ratelimit_store_seconds: histogram(SECONDS_IN_STORE)(
    "Wait of a request for the counts of its key's limits, in seconds.",
    "Above 0.01 s the store is busy or far away.",
  ),
  svc_ratelimit_store_up: gauge()(
    "1 while the shared store of limits answers; else 0.",
    "0: this gateway applies its share of each limit, or refuses (`state.redis.whenAway`). Absent without a store.",
  ),
  svc_auth_failures_total: counter(["reason"])(
    "Requests without a valid key, by reason.",
    "A burst of `api_key_invalid` is a revoked key in use, or guessing; the log has the network.",
  ),
  svc_key_requests_total: counter(["key_id"])(
    "Requests that counted against the limits of their key, by the key's id; other: keys without series of their own.",
    "Who the load comes from. `other`: keys beyond the first 100, see `GET /keys/{id}/usage`.",
  ),
  svc_key_refused_total: counter(["key_id"])(
    "Requests that a limit of their key refused, by the key's id; other: keys without series of their own.",
    "The key has outgrown its limits, or is a client in a loop.",
  ),
  svc_key_tokens_total: counter(["key_id", "token_type"])(
    "Tokens that keys used, by the key's id and by type: input, cached (a part of input), output; other: keys without series of their own.",
    "Who uses how much; the exact counts are those of `GET /keys/{id}/usage`.",
  ),
  svc_keystore_keys: gauge()(
    "Key records in use, whatever their status.",
    "An unexpected fall: another key file, or a shared store that has lost keys.",
  ),
  svc_keystore_last_success_timestamp_seconds: gauge()(
    "Load time of the keys in use, in seconds since the epoch.",
    "Older than the newest change of keys: see `svc_keystore_stale` and the log.",
  ),
  svc_keystore_load_errors_total: counter()(
    "Failed attempts to load the newest keys.",
    "File or store could not be read or is wrong, the log says why; the last good keys stay in force.",
  ),
  svc_keystore_refused_records: gauge()(
    "Refused key records of the shared store: altered, missing, or older ones.",
    "The store was written without the pepper. `/keys/status` names the keys: put them back with `keys restore EXPORT`, or drop them with `keys restore`.",
  ),
  svc_keystore_went_back_total: counter()(
    "Returns of the shared key store without changes that were in use here.",
    "Alert on a rise: a fail-over lost changes. Gateways put back those that they knew, see `put-back` in `keys audit`.",
  ),
  svc_sealing_keys: gauge(["key_id", "does"])(
    "1 for each sealing key in force, by id and use: the first one seals and opens, the others only open.",
    'Alert where gateways differ: `count(count by (key_id) (svc_sealing_keys{does="seals"})) > 1`. They have other files as `sealingKeyFile`, or none.',
  ),
  svc_sealed_texts_total: counter(["result"])(
    "Sealed texts that callers sent back, by outcome: opened; unknown_key, which names an unknown key; refused, which is not ours, was changed or was sealed for another purpose.",
    "Many `unknown_key`: gateways have different sealing keys, or one was dropped too early.",
  ),
  svc_keystore_stale: gauge()(
    "1 while some of the newest keys are unusable and earlier ones stay in force; else 0.",
    "Alert on 1: revoked keys may still open the service. `keys doctor` says why.",
  ),
};

const PROCESS = {
  svc_overload_pressure_ratio: gauge(["resource"])(
    "Used share of a resource of this process, 0 to 1, by resource.",
    "How near each resource is to its end. Above 0.8 for long: add gateways.",
  ),
  svc_overload_action_active: gauge(["action"])(
    "1 while an overload action is in force, by action; else 0.",
    "Alert on 1: requests are refused to stay alive. `svc_overload_pressure_ratio` says which resource it is.",
  ),
  svc_downstream_cx_overflow_total: counter()(
    "Connections of callers that were refused at the connection limit.",
    "Raise `ulimit -n` or `maxActiveDownstreamConnections`, or add gateways; many silent ones are a flood.",
  ),
  svc_inflight_body_bytes: gauge()(
    "Bytes of request bodies in flight, from their announcement until an engine has accepted them.",
    "Near `inflightBodyBytes.maxBytes`, new big ones wait.",
  ),
  svc_inflight_bodies_waiting: gauge()(
    "Requests whose body waits, unread, for room among the bodies in flight.",
    "Above 0 for long: after 10 s they get 503 or 429. More memory, or more gateways.",
  ),
  svc_answers_kept: gauge()(
    "Answers that are kept now so that another engine could continue them.",
    "About as many as answers run; fewer, where engines cannot be continued.",
  ),
  svc_answers_kept_bytes: gauge()(
    "Memory of the answers that are kept now so that another engine could continue them, their requests included, in bytes.",
    "Near `svc_answers_kept_limit_bytes`, further answers are not kept, and fail with their engine.",
  ),
  svc_answers_kept_limit_bytes: gauge()(
    "The most memory that kept answers may take up, continuation.maxBytes, in bytes.",
    "It never moves; alert where `svc_answers_kept_bytes` is above 0.9 of it.",
  ),
  svc_websockets_open: gauge()(
    "Open WebSockets.",
    "At 4,096, or 32 of a key, further ones get 426, and agents use HTTP.",
  ),
  svc_websocket_ends_total: counter(["reason"])(
    "Ended WebSockets, by reason.",
    "`lost` and `slow` are the network's, `no_room` is short memory.",
  ),
  svc_websocket_frames_total: counter(["conversation"])(
    "Requests over WebSocket: with whole, continued and lost conversations.",
    "Many `not_found`: kept conversations were dropped for memory, or sockets end early.",
  ),
  svc_websocket_kept_bytes: gauge()(
    "Bytes of the conversations of open WebSockets.",
    "They yield to bodies in flight, in the same memory.",
  ),
  svc_tls_certificate_expiry_timestamp_seconds: certificateRow(
    "Alert 14 days before; replaced files are taken at once.",
  ),
  nodejs_eventloop_utilization_ratio: gauge()(
    "Event loop utilization since the last scrape, 0 to 1.",
    "Above 0.9 for long, the core is full: add gateways.",
  ),
};

/** The metrics of the gateway, by the headings of their page. */
export const SECTIONS = {
  "Requests and answers": REQUESTS,
  "Clusters and endpoints": CLUSTERS,
  "Engines, as they report themselves": ENGINES,
  "Keys and limits": KEYS,
  "This process": PROCESS,
};

/** The same in one table. */
export const METRICS = { ...REQUESTS, ...CLUSTERS, ...ENGINES, ...KEYS, ...PROCESS };

/** The metrics of the gateway in one registry. */
export class GatewayMetrics extends Metrics<typeof METRICS> {
  constructor(registry: Registry) {
    super(METRICS, registry);
  }
}
