import { type ClientReadableStream, status } from "@grpc/grpc-js";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { toDuration } from "../../../deploy/runtime/time/clock.ts";
import type { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { OpenRcaServiceService } from "../../../proto/gen/xds/service/orca/v3/orca.ts";
import type { Endpoint } from "./endpoint.ts";

/** The report interval of a node, in milliseconds; it also reports large changes. */
const REPORT_INTERVAL_MS = 500;
/** The longest report interval with very many nodes: a report expires after twice as long. */
const MAX_REPORT_INTERVAL_MS = 5_000;
/** The milliseconds that each node adds to the interval with many nodes: all together send 500 reports per second. */
const INTERVAL_MS_PER_NODE = 2;
const MIN_RECONNECT_MS = 250;
const MAX_RECONNECT_MS = 5_000;
/**
 * The time after which a node without load reports is asked again, in milliseconds: one with reports may have replaced
 * it.
 */
const ASK_AGAIN_MS = 60_000;

export type LoadReportsOptions = {
  /** The endpoint that stores the newest report. */
  readonly endpoint: Endpoint;
  /** The clock of the reports' age and of the backoff. */
  readonly clock: Clock;
  /** Returns a random number uniform over [0, 1). */
  readonly random: () => number;
  /** Returns the number of followed nodes, including this one. */
  readonly nodes: () => number;
};

/**
 * Follows the load of a node by ORCA's out-of-band reports. Only the quality of picks depends on them: a node without
 * reports is as usable as any. A node is asked to report every half second; beyond 250 nodes less often, down to every
 * 5 s, as a gateway would be busy with reports alone. A node reports large changes at once in any case.
 */
export class LoadReports {
  readonly #options: LoadReportsOptions;
  #call: ClientReadableStream<OrcaLoadReport> | undefined;
  #reconnectMs = MIN_RECONNECT_MS;
  #cancelTimer: () => void = () => {};
  #closed = false;

  constructor(options: LoadReportsOptions) {
    this.#options = options;
    this.#open();
  }

  /** Stops following the node's load; the newest report stays until it expires. */
  close(): void {
    this.#closed = true;
    this.#cancelTimer();
    this.#call?.cancel();
  }

  #open(): void {
    const { endpoint, clock, random } = this.#options;
    const { path, requestSerialize, responseDeserialize } = OpenRcaServiceService.streamCoreMetrics;
    const request = { reportInterval: toDuration(reportIntervalMs(this.#options.nodes())), requestCostNames: [] };
    const call = endpoint.client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
    this.#call = call;
    call.on("data", (report: OrcaLoadReport) => {
      if (this.#closed) return;
      this.#reconnectMs = MIN_RECONNECT_MS;
      endpoint.report.set(report, clock.nowMs());
    });
    // Repeated by the status, which also reports a stream that the node ended normally.
    call.on("error", () => {});
    call.on("status", ({ code }) => {
      endpoint.report.clear();
      if (this.#closed) return;
      const waitMs = code === status.UNIMPLEMENTED ? ASK_AGAIN_MS : this.#reconnectMs;
      this.#reconnectMs = Math.min(MAX_RECONNECT_MS, 2 * this.#reconnectMs);
      this.#cancelTimer = clock.after(waitMs * (0.8 + 0.4 * random()), () => this.#open());
    });
  }
}

function reportIntervalMs(nodes: number): number {
  return Math.min(MAX_REPORT_INTERVAL_MS, Math.max(REPORT_INTERVAL_MS, nodes * INTERVAL_MS_PER_NODE));
}
