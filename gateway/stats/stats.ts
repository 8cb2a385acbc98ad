import { performance } from "node:perf_hooks";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import {
  POWERS_OF_FOUR,
  SECONDS_IN_QUEUE,
  SECONDS_IN_STORE,
  SECONDS_PER_TOKEN,
  SECONDS_TO_AN_HOUR,
  SECONDS_TO_CANCEL,
  SECONDS_TO_FIRST_TOKEN,
} from "./buckets.ts";
import { GapHistogram } from "./gap-histogram.ts";
import { LiveTotals } from "./live-totals.ts";
import { UpstreamStats } from "./upstream-stats.ts";

/**
 * The gateway's measurements. Label values come from our tables only, so that nobody can make new series, and none says
 * whose a request was.
 */
export class Stats {
  readonly registry = new Registry();
  readonly httpRequests: Counter<"route" | "format" | "code" | "outcome">;
  readonly requestDuration: Histogram<"operation" | "model" | "outcome">;
  /** `cache`: how much of the prompt was read from it: `hit` (half or more), `partial`, `miss`, or `unknown`. */
  readonly timeToFirstToken: Histogram<"model" | "cache">;
  readonly timePerOutputToken: Histogram<"model">;
  readonly queueWait: Histogram<"model" | "class">;
  readonly tokens: Histogram<"model" | "token_type">;
  readonly streamsActive: Gauge<"format">;
  readonly streamsPaused: Gauge<"format">;
  readonly streamEnd: Counter<"format" | "reason">;
  readonly logLinesDropped: Counter;
  readonly cancelLatency: Histogram;
  /** `dim`: the limit that refused; `all` where none did. */
  readonly rateLimitDecisions: Counter<"dim" | "decision">;
  readonly rateLimitStore: Histogram;
  readonly authFailures: Counter<"reason">;
  readonly gaps: GapHistogram;
  readonly upstream: UpstreamStats;
  /** What the admin page shows, as it happens. */
  readonly live = new LiveTotals();

  constructor() {
    collectDefaultMetrics({ register: this.registry });
    registerEventLoopUtilization(this.registry);
    const registers = [this.registry];
    const counter = <T extends string>(name: string, help: string, ...labelNames: T[]) =>
      new Counter({ name, help, labelNames, registers });
    const gauge = <T extends string>(name: string, help: string, ...labelNames: T[]) =>
      new Gauge({ name, help, labelNames, registers });
    const histogram = <T extends string>(name: string, help: string, bounds: readonly number[], ...labelNames: T[]) =>
      new Histogram({ name, help, labelNames, buckets: [...bounds], registers });
    this.httpRequests = counter(
      "svc_http_requests_total",
      "Requests that were answered; code 0: the client left before.",
      "route",
      "format",
      "code",
      "outcome",
    );
    this.requestDuration = histogram(
      "gen_ai_server_request_duration_seconds",
      "From a request's arrival to the end of its answer.",
      SECONDS_TO_AN_HOUR,
      "operation",
      "model",
      "outcome",
    );
    this.timeToFirstToken = histogram(
      "gen_ai_server_time_to_first_token_seconds",
      "From a request's arrival to its first delta.",
      SECONDS_TO_FIRST_TOKEN,
      "model",
      "cache",
    );
    this.timePerOutputToken = histogram(
      "gen_ai_server_time_per_output_token_seconds",
      "Time between tokens of a complete answer, on average.",
      SECONDS_PER_TOKEN,
      "model",
    );
    this.queueWait = histogram(
      "svc_queue_wait_seconds",
      "From a checked request to an engine having taken it up.",
      SECONDS_IN_QUEUE,
      "model",
      "class",
    );
    this.tokens = histogram(
      "gen_ai_client_token_usage_tokens",
      "Tokens of one answer: input, cached, output, reasoning.",
      POWERS_OF_FOUR,
      "model",
      "token_type",
    );
    this.streamsActive = gauge("svc_streams_active", "Event streams that are open.", "format");
    this.streamsPaused = gauge("svc_streams_paused_backpressure", "Of those, held by a slow reader.", "format");
    this.streamEnd = counter("svc_stream_end_total", "Event streams by the way they ended.", "format", "reason");
    this.logLinesDropped = counter("svc_log_lines_dropped_total", "Lines of the log for which there was no room.");
    this.cancelLatency = histogram(
      "svc_cancel_latency_seconds",
      "From the client's leaving to the engine's call being over.",
      SECONDS_TO_CANCEL,
    );
    this.rateLimitDecisions = counter("svc_ratelimit_decisions_total", "Requests by limits.", "dim", "decision");
    this.rateLimitStore = histogram(
      "svc_ratelimit_store_seconds",
      "For how long a request waited for the counts of its key.",
      SECONDS_IN_STORE,
    );
    this.authFailures = counter("svc_auth_failures_total", "Requests without a key that is valid now.", "reason");
    this.gaps = new GapHistogram(this.registry);
    this.upstream = new UpstreamStats(this.registry);
  }
}

/** Share of time in which the event loop had work, since the last scrape. */
function registerEventLoopUtilization(registry: Registry): void {
  let last = performance.eventLoopUtilization();
  new Gauge({
    name: "nodejs_eventloop_utilization_ratio",
    help: "Share of time in which the event loop had work, since the last scrape.",
    registers: [registry],
    collect() {
      const now = performance.eventLoopUtilization();
      this.set(performance.eventLoopUtilization(now, last).utilization);
      last = now;
    },
  });
}
