import { type ClientReadableStream, status } from "@grpc/grpc-js";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { toDuration } from "../../../deploy/runtime/time/proto-duration.ts";
import type { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { OpenRcaServiceService } from "../../../proto/gen/xds/service/orca/v3/orca.ts";
import type { Endpoint } from "./endpoint.ts";

/** The longest time between two reports of a node, in milliseconds; it also reports when something has changed much. */
const REPORT_INTERVAL_MS = 500;
/** The longest time between two reports where there are very many nodes: a report counts for twice as long. */
const MAX_REPORT_INTERVAL_MS = 5_000;
/** What each node adds to that time where there are many, in milliseconds: all together report 500 times a second. */
const INTERVAL_MS_PER_NODE = 2;
const MIN_RECONNECT_MS = 250;
const MAX_RECONNECT_MS = 5_000;
/**
 * The time after which a node without load reports is asked again, in milliseconds: it may have been replaced by one
 * with.
 */
const ASK_AGAIN_MS = 60_000;

/** What following the load of a node takes. */
export type LoadReportsOptions = {
  /** The endpoint that is asked, and that keeps the newest report. */
  readonly endpoint: Endpoint;
  /** The clock that dates reports, and by which a stream that ended is opened again. */
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Returns how many nodes are followed, this one among them. */
  readonly nodes: () => number;
};

/**
 * Follows the load of a node by ORCA's out-of-band reports. Nothing depends on them but the quality of picks: a node
 * that has none is as good as any. A node is asked to report every half a second; beyond 250 nodes less often, down to
 * every 5 s, as a gateway would be busy with reports alone. What changes much the node tells at once in any case.
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

  /** Stops following the node's load; the newest report stays until it is too old. */
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
    // Said again by the status, which also tells of a stream that the node ended well-mannered.
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
