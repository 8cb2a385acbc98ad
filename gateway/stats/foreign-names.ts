import type { Registry } from "prom-client";
import { type MetricView, registerViews } from "../../deploy/runtime/metrics/metric-view.ts";
import { ROUTES } from "../routes.ts";
import type { StatsSettings } from "./stats-settings.ts";

/** The name of an Envoy statistic of a cluster, behind `envoy_cluster_`, by that of the metric of ours that it shows. */
const ENVOY_CLUSTER: readonly (readonly [theirs: string, ours: string])[] = [
  ["upstream_rq_total", "upstream_rq_total"],
  ["upstream_rq_active", "upstream_rq_active"],
  ["upstream_rq_retry", "upstream_rq_retry_total"],
  ["upstream_rq_retry_success", "upstream_rq_retry_success_total"],
  ["upstream_rq_retry_overflow", "upstream_rq_retry_overflow_total"],
  ["upstream_rq_timeout", "upstream_rq_timeout_total"],
  ["upstream_rq_per_try_timeout", "upstream_rq_per_try_timeout_total"],
  ["upstream_rq_rx_reset", "upstream_rq_rx_reset_total"],
  ["upstream_rq_pending_active", "upstream_rq_pending_active"],
  ["upstream_rq_pending_overflow", "upstream_rq_pending_overflow_total"],
  ["upstream_cx_none_healthy", "upstream_cx_none_healthy_total"],
  ["membership_total", "membership"],
  ["membership_healthy", "membership_healthy"],
  ["update_attempt", "update_attempt_total"],
  ["update_success", "update_success_total"],
  ["update_failure", "update_failure_total"],
  ["update_rejected", "update_rejected_total"],
  ["outlier_detection_ejections_active", "outlier_ejections_active"],
];

/** Envoy's names of what ours tell apart by a label: behind `envoy_cluster_`, the metric of ours, the label, its value. */
const ENVOY_CLUSTER_PARTS: readonly (readonly [theirs: string, ours: string, label: string, value: string])[] = [
  ["outlier_detection_ejections_enforced_total", "outlier_ejections_total", "enforced", "true"],
  ["circuit_breakers_default_rq_open", "circuit_breakers_open", "kind", "rq"],
  ["circuit_breakers_default_rq_pending_open", "circuit_breakers_open", "kind", "rq_pending"],
  ["circuit_breakers_default_remaining_rq", "circuit_breakers_remaining", "kind", "rq"],
  ["circuit_breakers_default_remaining_pending", "circuit_breakers_remaining", "kind", "rq_pending"],
];

/** The clusters as Envoy's metrics show them: each model is a cluster. */
export const ENVOY_VIEWS: readonly MetricView[] = [
  ...ENVOY_CLUSTER.map(([theirs, ours]) => envoyView(theirs, ours)),
  ...ENVOY_CLUSTER_PARTS.map(([theirs, ours, label, value]) => envoyView(theirs, ours, label, value)),
];

function envoyView(theirs: string, ours: string, label?: string, value?: string): MetricView {
  return {
    name: `envoy_cluster_${theirs}`,
    of: `svc_cluster_${ours}`,
    labelNames: ["envoy_cluster_name"],
    labels: (labels) =>
      label !== undefined && labels[label] !== value ? undefined : { envoy_cluster_name: labels.cluster ?? "" },
  };
}

/** The operations that OpenTelemetry knows as `chat`: those that generate. */
const CHAT: ReadonlySet<string> = new Set(
  ROUTES.filter(({ use }) => use === "generation").map(({ operation }) => operation),
);

const GEN_AI_LABELS = [
  "gen_ai_operation_name",
  "gen_ai_provider_name",
  "gen_ai_request_model",
  "gen_ai_response_model",
] as const;

function genAiLabels(model = "") {
  return {
    gen_ai_operation_name: "chat",
    gen_ai_provider_name: "svc",
    gen_ai_request_model: model,
    gen_ai_response_model: model,
  };
}

/**
 * The requests as OpenTelemetry's conventions for generative AI name them. Cached and reasoning tokens are parts of
 * input and output, which its labels have no words for, and are left out.
 */
export const GEN_AI_VIEWS: readonly MetricView[] = [
  {
    name: "gen_ai_server_request_duration_seconds",
    of: "svc_request_duration_seconds",
    labelNames: [...GEN_AI_LABELS, "error_type"],
    labels({ operation = "", model, outcome = "" }) {
      if (!CHAT.has(operation)) return undefined;
      return { ...genAiLabels(model), ...(outcome !== "ok" && { error_type: outcome }) };
    },
  },
  {
    name: "gen_ai_server_time_to_first_token_seconds",
    of: "svc_time_to_first_token_seconds",
    labelNames: GEN_AI_LABELS,
    labels: ({ model }) => genAiLabels(model),
  },
  {
    name: "gen_ai_server_time_per_output_token_seconds",
    of: "svc_time_per_output_token_seconds",
    labelNames: GEN_AI_LABELS,
    labels: ({ model }) => genAiLabels(model),
  },
  {
    name: "gen_ai_client_token_usage",
    of: "svc_request_tokens",
    labelNames: [...GEN_AI_LABELS, "gen_ai_token_type"],
    labels({ model, token_type: type = "" }) {
      if (type !== "input" && type !== "output") return undefined;
      return { ...genAiLabels(model), gen_ai_token_type: type };
    },
  },
];

/**
 * Registers the metrics of a gateway under the names of others that are switched on. Everything that they show has to
 * be registered before.
 */
export function registerForeignNames(registry: Registry, settings: StatsSettings): void {
  if (settings.envoyNames) registerViews(registry, ENVOY_VIEWS);
  if (settings.openTelemetryNames) registerViews(registry, GEN_AI_VIEWS);
}
