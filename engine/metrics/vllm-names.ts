import type { MetricView } from "../../deploy/runtime/metrics/metric-view.ts";

/**
 * Returns the metrics of a node under the names that vLLM gives them, for whatever was made to read those: the
 * scheduler of Kubernetes' inference extension, autoscalers, dashboards. `model` labels what a node tells of itself as a
 * whole.
 */
export function vllmViews(model: string): readonly MetricView[] {
  return [
    ofNode("num_requests_running", "svc_engine_slots_busy", model),
    ofNode("num_requests_waiting", "svc_engine_queue", model),
    ofNode("kv_cache_usage_perc", "svc_engine_kv_cache_usage_ratio", model),
    ofTokens("prompt_tokens_total", "input"),
    ofTokens("generation_tokens_total", "output"),
    ofTokens("prefix_cache_queries_total", "input"),
    ofTokens("prefix_cache_hits_total", "cached"),
    ofModel("time_to_first_token_seconds", "svc_engine_time_to_first_delta_seconds"),
    ofModel("request_queue_time_seconds", "svc_engine_queue_wait_seconds"),
  ];
}

const LABEL_NAMES = ["model_name"];

function ofNode(name: string, of: string, model: string): MetricView {
  return { name: `vllm:${name}`, of, labelNames: LABEL_NAMES, labels: () => ({ model_name: model }) };
}

function ofModel(name: string, of: string): MetricView {
  return { name: `vllm:${name}`, of, labelNames: LABEL_NAMES, labels: ({ model = "" }) => ({ model_name: model }) };
}

function ofTokens(name: string, tokens: string): MetricView {
  return {
    ...ofModel(name, "svc_engine_tokens_total"),
    labels: ({ model = "", type }) => (type === tokens ? { model_name: model } : undefined),
  };
}
