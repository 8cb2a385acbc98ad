import type { Logger } from "pino";
import type { Gauge } from "prom-client";
import { certificateRow } from "../runtime/metrics/certificate-ends.ts";
import { gauge, type Metrics } from "../runtime/metrics/metric-table.ts";
import { linkAbort, sleep } from "../runtime/time/abort.ts";
import type { Clock } from "../runtime/time/clock.ts";
import { Unproven } from "./edge.ts";

/** Milliseconds after which a proof that has not come is given up. */
const PROOF_MS = 120_000;
/** Most milliseconds until a promise that was not kept is tried again. */
const AGAIN_MS = 10 * 60_000;

/** The metrics of the prober. */
export const METRICS = {
  svc_promise_proven_timestamp_seconds: gauge(["promise"])(
    "Unix time at which a promise of the service was last proven; 0 before its first proof.",
    "`SvcPromiseUnproven` is raised when it is too old; the log says why.",
  ),
  svc_promise_within_seconds: gauge(["promise"])(
    "Seconds in which a promise has to be proven again.",
    "It never moves.",
  ),
  svc_tls_certificate_expiry_timestamp_seconds: certificateRow("As of a gateway."),
};

/** A promise of the service, and what proves it. */
export type Promised = {
  readonly name: string;
  /** Milliseconds from one proof to the next. */
  readonly everyMs: number;
  /** Milliseconds after which a promise that was not proven raises an alert. */
  readonly withinMs: number;
  /**
   * Resolves to whether the promise was proven; false where there is nothing new. Rejects with `Unproven` where it is
   * not kept, also once the signal is aborted.
   */
  readonly prove: (signal: AbortSignal) => Promise<boolean>;
};

export type ProberOptions = {
  readonly promises: readonly Promised[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics<typeof METRICS>;
};

/** Proves each promise again and again, and exports when it was last proven. */
export class Prober {
  /** The number of proofs under way. */
  busy = 0;
  readonly #options: ProberOptions;
  readonly #proven: Gauge<"promise">;

  constructor(options: ProberOptions) {
    const { metrics, promises } = options;
    this.#options = options;
    this.#proven = metrics.metric("svc_promise_proven_timestamp_seconds");
    const within = metrics.metric("svc_promise_within_seconds");
    for (const { name, withinMs } of promises) {
      this.#proven.set({ promise: name }, 0);
      within.set({ promise: name }, withinMs / 1000);
    }
  }

  /** Proves all promises until the signal is aborted. Rejects only with a fault of a proof itself. */
  async run(stop: AbortSignal): Promise<void> {
    await Promise.all(this.#options.promises.map((promised) => this.#watch(promised, stop)));
  }

  async #watch(promised: Promised, stop: AbortSignal): Promise<void> {
    const { name, everyMs } = promised;
    const { clock, log } = this.#options;
    let before: string | undefined;
    while (!stop.aborted) {
      const reason = await this.#prove(promised, stop);
      if (stop.aborted) return;
      if (reason !== undefined && reason !== before) log.warn({ promise: name, reason }, "a promise is not kept");
      if (reason === undefined && before !== undefined) log.info({ promise: name }, "the promise is kept again");
      before = reason;
      await sleep(clock, reason === undefined ? everyMs : Math.min(everyMs, AGAIN_MS), stop);
    }
  }

  /** Resolves to undefined when the promise was proven or nothing is new, else to the reason. */
  async #prove({ name, prove }: Promised, stop: AbortSignal): Promise<string | undefined> {
    const { clock } = this.#options;
    const { signal, abort, release } = linkAbort(stop);
    const cancel = clock.after(PROOF_MS, () => abort(undefined));
    this.busy += 1;
    try {
      if (await prove(signal)) this.#proven.set({ promise: name }, clock.wallMs() / 1000);
      return undefined;
    } catch (error) {
      if (error instanceof Unproven) return error.reason;
      throw error;
    } finally {
      this.busy -= 1;
      cancel();
      release();
    }
  }
}
