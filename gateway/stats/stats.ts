import { performance } from "node:perf_hooks";
import type { Registry } from "prom-client";
import { processRegistry } from "../../deploy/runtime/metrics/process-metrics.ts";
import { END_REASONS, OUTCOMES, type OutcomeRow, WITHOUT_KEY } from "../outcome.ts";
import { ROUTES } from "../routes.ts";
import { GatewayMetrics } from "./metrics.ts";
import { UpstreamStats } from "./upstream-stats.ts";

const STREAMED_FORMATS: ReadonlySet<string> = new Set(
  ROUTES.flatMap(({ use, format }) => (use === "generation" ? [format.name] : [])),
);

/**
 * The gateway's metrics of requests. Label values come from closed tables, so that callers cannot create series. The
 * use of keys is counted separately (`KeySeries`), for a bounded number of keys.
 */
export class Stats extends GatewayMetrics {
  readonly httpRequests = this.metric("svc_http_requests_total");
  readonly requestDuration = this.metric("svc_request_duration_seconds");
  /** `cache` is the cached share of the prompt: `hit` (half or more), `partial`, `miss`, or `unknown`. */
  readonly timeToFirstToken = this.metric("svc_time_to_first_token_seconds");
  readonly timePerOutputToken = this.metric("svc_time_per_output_token_seconds");
  readonly answers = this.metric("svc_answers_total");
  readonly queueWait = this.metric("svc_queue_wait_seconds");
  /** No label: names of tools are callers' text. */
  readonly toolDuration = this.metric("svc_agent_tool_seconds");
  readonly tokens = this.metric("svc_request_tokens");
  /** Output tokens of answers that were not streamed, by model: no gap between deltas counts them. No metric. */
  readonly foldedTokens = new Map<string, number>();
  readonly cacheReasons = this.metric("svc_cache_requests_total");
  readonly cacheLostTokens = this.metric("svc_cache_lost_tokens_total");
  readonly streamsActive = this.metric("svc_streams_active");
  readonly streamsPaused = this.metric("svc_streams_paused_backpressure");
  readonly streamEnd = this.metric("svc_stream_end_total");
  readonly connectionOverflow = this.metric("svc_downstream_cx_overflow_total");
  readonly socketEnds = this.metric("svc_websocket_ends_total");
  readonly socketFrames = this.metric("svc_websocket_frames_total");
  readonly logLinesDropped = this.metric("svc_log_lines_dropped_total");
  readonly cancelLatency = this.metric("svc_cancel_latency_seconds");
  readonly rateLimitDecisions = this.metric("svc_ratelimit_decisions_total");
  readonly rateLimitStore = this.metric("svc_ratelimit_store_seconds");
  readonly authFailures = this.metric("svc_auth_failures_total");
  /** Observed for every delta. */
  readonly gaps = this.metric("svc_inter_delta_gap_seconds");
  readonly upstream = new UpstreamStats(this.registry);

  /** Registers all metrics in `registry`, by default a new one with the metrics of the process. */
  constructor(registry: Registry = gatewayProcessRegistry()) {
    super(registry);
  }

  /**
   * Sets the counts of these clusters and of requests with closed labels to 0: a counter that is absent before its
   * first event shows no increase at it, and a dashboard shows "no data" instead of zero.
   */
  startAtZero(clusters: readonly string[]): void {
    for (const cluster of clusters) {
      this.upstream.startAtZero(cluster);
      this.gaps.zero({ model: cluster });
    }
    for (const format of STREAMED_FORMATS) {
      this.streamsActive.inc({ format }, 0);
      this.streamsPaused.inc({ format }, 0);
      for (const reason of Object.keys(END_REASONS)) this.streamEnd.inc({ format, reason }, 0);
    }
    this.rateLimitDecisions.inc({ dim: "all", decision: "allowed" }, 0);
    for (const { dim } of Object.values<OutcomeRow>(OUTCOMES))
      if (dim !== undefined) this.rateLimitDecisions.inc({ dim, decision: "refused" }, 0);
    for (const conversation of ["whole", "continued", "not_found"]) this.socketFrames.inc({ conversation }, 0);
    for (const reason of WITHOUT_KEY) this.authFailures.inc({ reason }, 0);
  }
}

/** Makes a registry with the metrics of any Node process and the event loop utilization. */
function gatewayProcessRegistry(): Registry {
  const registry = processRegistry();
  let last = performance.eventLoopUtilization();
  new GatewayMetrics(registry).read({
    nodejs_eventloop_utilization_ratio: () => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, last);
      last = now;
      return utilization;
    },
  });
  return registry;
}
