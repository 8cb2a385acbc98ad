import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { durationMs } from "../../deploy/runtime/time/proto-duration.ts";
import type { OrcaLoadReport } from "../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import type { OrcaLoadReportRequest } from "../../proto/gen/xds/service/orca/v3/orca.ts";
import { changedSharply } from "./load-report.ts";

/** What a caller gets that names no interval. */
const DEFAULT_INTERVAL_MS = 500;
const MIN_INTERVAL_MS = 100;
const MAX_INTERVAL_MS = 60_000;

export type ReportSink = {
  write(report: OrcaLoadReport): boolean;
  onDrain(listener: () => void): void;
  end(): void;
};

type Stream = {
  readonly sink: ReportSink;
  readonly intervalMs: number;
  sentMs: number;
  last: OrcaLoadReport;
  blocked: boolean;
};

/**
 * The out-of-band load reports of a node: to every stream one at once, one per interval, and one as soon as the load has
 * changed sharply. All streams share one look at the load, ten times a second, and none is taken while nobody listens.
 */
export class LoadStreams {
  readonly #clock: Clock;
  readonly #report: () => OrcaLoadReport;
  readonly #streams = new Set<Stream>();
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, report: () => OrcaLoadReport) {
    this.#clock = clock;
    this.#report = report;
  }

  /** Returns what ends the stream; the caller's leaving must call it. */
  open(request: OrcaLoadReportRequest, sink: ReportSink): () => void {
    const report = this.#report();
    const intervalMs = intervalOf(request);
    const stream: Stream = { sink, intervalMs, sentMs: this.#clock.nowMs(), last: report, blocked: false };
    sink.onDrain(() => {
      stream.blocked = false;
    });
    this.#streams.add(stream);
    stream.blocked = !sink.write(report);
    this.#arm();
    return () => this.#drop(stream);
  }

  /** Something has changed that nobody should have to wait for. */
  tell(): void {
    const report = this.#report();
    for (const stream of this.#streams) this.#send(stream, report);
  }

  /** Ends all streams. */
  close(): void {
    for (const stream of [...this.#streams]) {
      this.#drop(stream);
      stream.sink.end();
    }
  }

  #drop(stream: Stream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    this.#cancel ??= this.#clock.after(MIN_INTERVAL_MS, () => {
      this.#cancel = undefined;
      this.#look();
      if (this.#streams.size > 0) this.#arm();
    });
  }

  #look(): void {
    const report = this.#report();
    const now = this.#clock.nowMs();
    for (const stream of this.#streams)
      if (now - stream.sentMs >= stream.intervalMs || changedSharply(stream.last, report)) this.#send(stream, report);
  }

  /** A reader that is behind gets the newest one later instead of all of them. */
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
