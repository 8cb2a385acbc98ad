import { performance } from "node:perf_hooks";
import { Gauge, type Registry } from "prom-client";
import { processRegistry } from "../../deploy/runtime/metrics/process-metrics.ts";
import { END_REASONS, OUTCOMES, type OutcomeRow, WITHOUT_KEY } from "../outcome.ts";
import { ROUTES } from "../routes.ts";
import { MetricGroup } from "./metric-group.ts";
import { UpstreamStats } from "./upstream-stats.ts";

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

const STREAMED_FORMATS: ReadonlySet<string> = new Set(
  ROUTES.flatMap(({ use, format }) => (use === "generation" ? [format.name] : [])),
);

/**
 * The gateway's metrics of requests. Label values come from closed tables, so that callers cannot create series. The
 * use of keys is counted separately (`KeySeries`), for a bounded number of keys.
 */
export class Stats extends MetricGroup {
  readonly httpRequests = this.counter(
    "svc_http_requests_total",
    "Completed requests, by route, format, status code and outcome; code 0: the client left before a status was sent.",
    "route",
    "format",
    "code",
    "outcome",
  );
  readonly requestDuration = this.histogram(
    "svc_request_duration_seconds",
    "Time from a request's arrival to the end of its answer, in seconds.",
    SECONDS_TO_AN_HOUR,
    "operation",
    "model",
    "outcome",
  );
  /** `cache` is the cached share of the prompt: `hit` (half or more), `partial`, `miss`, or `unknown`. */
  readonly timeToFirstToken = this.histogram(
    "svc_time_to_first_token_seconds",
    "Time from a request's arrival to its first delta, in seconds, by the cached share of its prompt.",
    SECONDS_TO_FIRST_TOKEN,
    "model",
    "cache",
  );
  readonly timePerOutputToken = this.histogram(
    "svc_time_per_output_token_seconds",
    "Mean time between the tokens of a complete answer, in seconds.",
    SECONDS_PER_TOKEN,
    "model",
  );
  readonly answers = this.counter(
    "svc_answers_total",
    "Complete answers, by model and by the reason for which the engine ended them.",
    "model",
    "reason",
  );
  readonly queueWait = this.histogram(
    "svc_queue_wait_seconds",
    "Time from the dispatch of a request to its acceptance by an engine, in seconds, by the class it waited in.",
    SECONDS_IN_QUEUE,
    "model",
    "class",
  );
  /** No label: names of tools are callers' text. */
  readonly toolDuration = this.histogram(
    "svc_agent_tool_seconds",
    "Time that agents' tools ran before the request with their results, in seconds, as agents report it.",
    SECONDS_TO_AN_HOUR,
  );
  readonly tokens = this.histogram(
    "svc_request_tokens",
    "Tokens of one answer by type: input, cached (a part of input), output, reasoning (a part of output).",
    POWERS_OF_FOUR,
    "model",
    "token_type",
  );
  /** Output tokens of answers that were not streamed, by model: no gap between deltas counts them. No metric. */
  readonly foldedTokens = new Map<string, number>();
  readonly cacheReasons = this.counter(
    "svc_cache_requests_total",
    "Prompts that an engine has read, by the reason for cache misses; hit: no avoidable misses.",
    "model",
    "reason",
  );
  readonly cacheLostTokens = this.counter(
    "svc_cache_lost_tokens_total",
    "Prompt tokens that could have been cached by their engine and were not, by reason.",
    "model",
    "reason",
  );
  readonly streamsActive = this.gauge("svc_streams_active", "Open event streams, by format.", "format");
  readonly streamsPaused = this.gauge(
    "svc_streams_paused_backpressure",
    "Open event streams that wait for a slow reader, by format.",
    "format",
  );
  readonly streamEnd = this.counter(
    "svc_stream_end_total",
    "Ended event streams, by format and end reason.",
    "format",
    "reason",
  );
  readonly connectionOverflow = this.counter(
    "svc_downstream_cx_overflow_total",
    "Connections of callers that were refused at the connection limit.",
  );
  readonly socketEnds = this.counter("svc_websocket_ends_total", "Ended WebSockets, by reason.", "reason");
  readonly socketFrames = this.counter(
    "svc_websocket_frames_total",
    "Requests over WebSocket: with whole, continued and lost conversations.",
    "conversation",
  );
  readonly logLinesDropped = this.counter(
    "svc_log_lines_dropped_total",
    "Log lines that were dropped because the log's reader was too slow.",
  );
  readonly cancelLatency = this.histogram(
    "svc_cancel_latency_seconds",
    "Time from a client's disconnect to the end of its call to the engine, in seconds.",
    SECONDS_TO_CANCEL,
  );
  readonly rateLimitDecisions = this.counter(
    "svc_ratelimit_decisions_total",
    "Decisions about the limits of requests' keys, by result and by the limit that refused (dim; all: none did).",
    "dim",
    "decision",
  );
  readonly rateLimitStore = this.histogram(
    "svc_ratelimit_store_seconds",
    "Wait of a request for the counts of its key's limits, in seconds.",
    SECONDS_IN_STORE,
  );
  readonly authFailures = this.counter("svc_auth_failures_total", "Requests without a valid key, by reason.", "reason");
  /** Observed for every delta. */
  readonly gaps = this.histogram(
    "svc_inter_delta_gap_seconds",
    "Time between two deltas of one event stream, in seconds, by model.",
    SECONDS_BETWEEN_DELTAS,
    "model",
  );
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
  new Gauge({
    name: "nodejs_eventloop_utilization_ratio",
    help: "Event loop utilization since the last scrape, 0 to 1.",
    registers: [registry],
    collect() {
      const now = performance.eventLoopUtilization();
      this.set(performance.eventLoopUtilization(now, last).utilization);
      last = now;
    },
  });
  return registry;
}
