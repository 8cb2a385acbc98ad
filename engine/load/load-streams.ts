import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { durationMs } from "../../deploy/runtime/time/clock.ts";
import type { OrcaLoadReport } from "../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import type { OrcaLoadReportRequest } from "../../proto/gen/xds/service/orca/v3/orca.ts";
import { OpenStreams, type StreamSink } from "../prefixes/prefix-streams.ts";
import { changedSharply } from "./load-report.ts";

const DEFAULT_INTERVAL_MS = 500;
const MIN_INTERVAL_MS = 100;
const MAX_INTERVAL_MS = 60_000;

export type ReportSink = StreamSink<OrcaLoadReport>;

type Stream = {
  readonly sink: ReportSink;
  readonly intervalMs: number;
  sentMs: number;
  last: OrcaLoadReport;
  blocked: boolean;
};

/**
 * The out-of-band load reports of a node. A stream gets a report when it opens, one per interval, and one as soon as the
 * load has changed sharply. All streams share one load sample, taken ten times a second while a stream is open.
 */
export class LoadStreams {
  readonly #clock: Clock;
  readonly #takeReport: (readers: number) => OrcaLoadReport;
  readonly #streams: OpenStreams<Stream>;

  constructor(clock: Clock, takeReport: (readers: number) => OrcaLoadReport) {
    this.#clock = clock;
    this.#takeReport = takeReport;
    this.#streams = new OpenStreams(clock, MIN_INTERVAL_MS, () => this.#sample());
  }

  /** Opens a stream to `sink`. Returns the function that ends it, which must be called when the caller leaves. */
  open(request: OrcaLoadReportRequest, sink: ReportSink): () => void {
    const report = this.#takeReport(this.#streams.size + 1);
    const intervalMs = intervalOf(request);
    const stream: Stream = { sink, intervalMs, sentMs: this.#clock.nowMs(), last: report, blocked: false };
    sink.onDrain(() => {
      stream.blocked = false;
    });
    this.#streams.add(stream);
    stream.blocked = !sink.write(report);
    return this.#streams.opened(stream);
  }

  report(): void {
    const report = this.#takeReport(this.#streams.size);
    for (const stream of this.#streams) this.#send(stream, report);
  }

  close(): void {
    this.#streams.endAll();
  }

  #sample(): void {
    const report = this.#takeReport(this.#streams.size);
    const now = this.#clock.nowMs();
    for (const stream of this.#streams)
      if (now - stream.sentMs >= stream.intervalMs || changedSharply(stream.last, report)) this.#send(stream, report);
  }

  /** Sends a report, unless the reader is behind: it then gets only the newest one later. */
  #send(stream: Stream, report: OrcaLoadReport): void {
    if (stream.blocked) return;
    stream.sentMs = this.#clock.nowMs();
    stream.last = report;
    stream.blocked = !stream.sink.write(report);
  }
}

function intervalOf({ reportInterval }: OrcaLoadReportRequest): number {
  if (!reportInterval) return DEFAULT_INTERVAL_MS;
  return Math.min(MAX_INTERVAL_MS, Math.max(MIN_INTERVAL_MS, durationMs(reportInterval)));
}
