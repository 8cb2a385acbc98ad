import type { ApiError } from "../errors.ts";
import type { Detail } from "../outcome.ts";
import type { UpstreamStats } from "../stats/upstream-stats.ts";
import type { AdmissionController } from "./admission/admission-controller.ts";
import type { NotAdmitted } from "./admission/slot-request.ts";
import { overloaded } from "./call/grpc-error.ts";
import { outageRetryMs, spreadRetryAfterMs, tooManyWaiting } from "./retry/retry-errors.ts";

/** The detail token for each failure of the wait for an endpoint. */
const PENDING_DETAIL = {
  pending_overflow: "upstream_pending_overflow",
  pending_timeout: "upstream_pending_timeout",
} as const;

/** The part of a cluster's admission that estimates when a request could be served. */
export type Outlook = Pick<AdmissionController, "outageMs" | "drainMs">;

/** Makes the errors of requests that no engine serves now, each with the time of a retry. */
export class LocalReplies {
  readonly #stats: Pick<UpstreamStats, "noneHealthy">;
  readonly #random: () => number;

  /** Counts requests without a healthy endpoint in `stats`; `random` returns numbers uniform over [0, 1). */
  constructor(stats: Pick<UpstreamStats, "noneHealthy">, random: () => number) {
    this.#stats = stats;
    this.#random = random;
  }

  /** Returns the error of a token count beyond the limit on running ones. */
  countOverflow(): ApiError {
    return this.#overloaded("upstream_count_overflow");
  }

  /** Returns the error of a request that may kill engines, and may come again in `laterMs` milliseconds. */
  suspected(laterMs: number): ApiError {
    return this.#overloaded("request_of_death_suspected", laterMs);
  }

  /** Returns the error of a request whose attempts all failed before the first delta: its caller may retry later. */
  exhausted(last: ApiError, outlook: Outlook): ApiError {
    if (last.code !== "engine_unavailable" && last.code !== "server_is_overloaded") return last;
    return this.#overloaded(last.detail, last.retryAfterMs ?? outageRetryMs(outlook.outageMs()), last);
  }

  /** Returns the error of a request that gets no place; `outlook` is undefined where the model has no cluster. */
  notAdmitted(why: NotAdmitted, model: string, outlook: Outlook | undefined): ApiError {
    const waitMs = outlook && (outageRetryMs(outlook.outageMs()) ?? outlook.drainMs());
    if (why === "key_overflow") return tooManyWaiting(this.#retryAfterMs(waitMs));
    if (why === "pending_overflow" || why === "pending_timeout") return this.#overloaded(PENDING_DETAIL[why], waitMs);
    this.#stats.noneHealthy(model);
    return this.#overloaded("no_healthy_upstream", waitMs);
  }

  #overloaded(detail: Detail, expectedMs?: number, cause?: unknown): ApiError {
    return overloaded(detail, this.#retryAfterMs(expectedMs), cause);
  }

  #retryAfterMs(expectedMs: number | undefined): number {
    return spreadRetryAfterMs(expectedMs, this.#random);
  }
}
