import { type Dashboard, quantile, rate, share } from "./dashboard.ts";

const MODEL = 'model=~"$model"';
const CLUSTER = 'cluster=~"$model"';

export const fleet: Dashboard = {
  name: "fleet",
  title: "svc / Fleet",
  text: "Service for callers at all gateways, the models' clusters, and the load of gateways.",
  variables: [{ label: "model", title: "Model", of: "svc_queue_depth" }],
  rows: [
    {
      title: "Service for callers",
      panels: [
        {
          title: "Requests",
          text: "Requests a second by outcome. The log lines of server_error have a detail token with the reason.",
          unit: "reqps",
          queries: [[rate("svc_http_requests_total", ["outcome"]), "{{outcome}}"]],
          stacked: true,
        },
        {
          title: "Failed by the service",
          text: "The share of requests that failed for a reason of the service; the promise is below 0.5%.",
          unit: "percentunit",
          queries: [
            [
              '(sum(rate(svc_http_requests_total{outcome="server_error"}[$__rate_interval])) or vector(0)) / sum(rate(svc_http_requests_total{outcome=~"ok|server_error"}[$__rate_interval]))',
              "failed",
            ],
          ],
        },
        {
          title: "Streams that did not end well",
          text: "Event streams a second whose answer failed, by reason; slow_reader and client_closed are caused by clients.",
          unit: "ops",
          queries: [[rate("svc_stream_end_total", ["reason"], 'reason!~"complete|length"'), "{{reason}}"]],
        },
        {
          title: "Time to the first token",
          text: "From a request's arrival to its first delta. If it grows, compare with the wait for an engine and with the cache.",
          unit: "s",
          queries: [
            [quantile(0.5, "svc_time_to_first_token_seconds", ["model"], MODEL), "p50 {{model}}"],
            [quantile(0.95, "svc_time_to_first_token_seconds", ["model"], MODEL), "p95 {{model}}"],
          ],
        },
        {
          title: "Time per output token",
          text: "The mean time between tokens of complete answers. If it grows, engines decode more slowly.",
          unit: "s",
          queries: [
            [quantile(0.5, "svc_time_per_output_token_seconds", ["model"], MODEL), "p50 {{model}}"],
            [quantile(0.95, "svc_time_per_output_token_seconds", ["model"], MODEL), "p95 {{model}}"],
          ],
        },
        {
          title: "Gaps within streams",
          text: "The longest gaps that users see as stutter: 99 of 100 are shorter.",
          unit: "s",
          queries: [[quantile(0.99, "svc_inter_delta_gap_seconds", ["model"], MODEL), "p99 {{model}}"]],
        },
        {
          title: "Tokens",
          text: "Tokens a second of answers that ended, by type; cached is a part of input, reasoning a part of output.",
          unit: "short",
          queries: [[rate("svc_request_tokens_sum", ["token_type"], MODEL), "{{token_type}}"]],
        },
        {
          title: "Input from the cache",
          text: "The share of input tokens that engines had in their cache. A fall costs time to the first token: look for restarted engines.",
          unit: "percentunit",
          queries: [
            [
              share("svc_request_tokens_sum", ["model"], `token_type="cached",${MODEL}`, `token_type="input",${MODEL}`),
              "{{model}}",
            ],
          ],
        },
        {
          title: "Open streams",
          text: "Open event streams, and those of them that wait for a slow reader.",
          unit: "short",
          queries: [
            ["sum by (format) (svc_streams_active)", "{{format}}"],
            ["sum(svc_streams_paused_backpressure)", "wait for their reader"],
          ],
        },
      ],
    },
    {
      title: "Models and their endpoints",
      panels: [
        {
          title: "Healthy endpoints",
          text: "The smallest number at any gateway, with its total. /clusters on the admin port has the state of each.",
          unit: "short",
          queries: [
            [`min by (cluster) (svc_cluster_membership_healthy{${CLUSTER}})`, "{{cluster}} healthy"],
            [`max by (cluster) (svc_cluster_membership{${CLUSTER}})`, "{{cluster}} all"],
          ],
        },
        {
          title: "Requests that wait",
          text: "Requests that wait for an endpoint, by class of service. If they stay, the model needs nodes.",
          unit: "short",
          queries: [[`sum by (model, class) (svc_queue_depth{${MODEL}})`, "{{model}} {{class}}"]],
          stacked: true,
        },
        {
          title: "Wait for an engine",
          text: "The time until an engine accepted a request; above 10 s there are too few slots.",
          unit: "s",
          queries: [[quantile(0.95, "svc_queue_wait_seconds", ["model"], MODEL), "p95 {{model}}"]],
        },
        {
          title: "Running and slots",
          text: "Open calls to each model's endpoints, with their slots.",
          unit: "short",
          queries: [
            [`sum by (cluster) (svc_cluster_upstream_rq_active{${CLUSTER}})`, "{{cluster}} running"],
            [`sum by (cluster) (max by (cluster, endpoint) (svc_endpoint_slots{${CLUSTER}}))`, "{{cluster}} slots"],
          ],
        },
        {
          title: "Failed attempts",
          text: "Failed and retried calls to endpoints, a second. Failures beyond the retry budget reached callers.",
          unit: "ops",
          queries: [
            [rate("svc_cluster_upstream_rq_retry_total", ["cluster"], CLUSTER), "{{cluster}} repeated"],
            [rate("svc_cluster_upstream_rq_rx_reset_total", ["cluster"], CLUSTER), "{{cluster}} broken off"],
            [rate("svc_cluster_upstream_rq_per_try_timeout_total", ["cluster"], CLUSTER), "{{cluster}} timed out"],
            [rate("svc_cluster_upstream_rq_retry_overflow_total", ["cluster"], CLUSTER), "{{cluster}} not allowed"],
          ],
        },
        {
          title: "Ejected and draining endpoints",
          text: "Endpoints without new requests, because they were ejected or are draining.",
          unit: "short",
          queries: [
            [`max by (cluster) (svc_cluster_outlier_ejections_active{${CLUSTER}})`, "{{cluster}} ejected"],
            [`max by (cluster) (svc_cluster_membership_draining{${CLUSTER}})`, "{{cluster}} draining"],
          ],
        },
      ],
    },
    {
      title: "Gateways",
      panels: [
        {
          title: "Event loop",
          text: "Event loop utilization; above 0.9 the core is busy: add gateways.",
          unit: "percentunit",
          queries: [["nodejs_eventloop_utilization_ratio", "{{instance}}"]],
        },
        {
          title: "Pressure",
          text: "Used share of each resource, at the worst gateway; actions start below 1.",
          unit: "percentunit",
          queries: [["max by (resource) (svc_overload_pressure_ratio)", "{{resource}}"]],
        },
        {
          title: "Actions against overload",
          text: "Gateways with an overload action in force, by action.",
          unit: "short",
          queries: [["sum by (action) (svc_overload_action_active)", "{{action}}"]],
        },
      ],
    },
  ],
};
