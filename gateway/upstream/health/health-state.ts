import type { HealthThresholds } from "./health-settings.ts";

/**
 * Judges consecutive health checks by Envoy's thresholds. The first check decides alone: there is no earlier status to
 * protect.
 */
export class HealthState {
  readonly #thresholds: HealthThresholds;
  #status: "pending" | "healthy" | "unhealthy" = "pending";
  /** The number of consecutive checks against the status. */
  #against = 0;

  constructor(thresholds: HealthThresholds) {
    this.#thresholds = thresholds;
  }

  /** Whether the status is healthy; false before the first check. */
  get healthy(): boolean {
    return this.#status === "healthy";
  }

  /** Whether the status is healthy and the newest check passed. */
  get well(): boolean {
    return this.#status === "healthy" && this.#against === 0;
  }

  /** Counts a check that passed. */
  pass(): void {
    this.#count("healthy", this.#thresholds.healthyThreshold);
  }

  /** Counts a check that failed. */
  fail(): void {
    this.#count("unhealthy", this.#thresholds.unhealthyThreshold);
  }

  /** Makes the state unhealthy at once, regardless of thresholds, for example after the node's own NOT_SERVING. */
  failNow(): void {
    this.#become("unhealthy");
  }

  #count(result: "healthy" | "unhealthy", threshold: number): void {
    if (this.#status !== "pending" && this.#status !== result) {
      this.#against += 1;
      if (this.#against < threshold) return;
    }
    this.#become(result);
  }

  #become(status: "healthy" | "unhealthy"): void {
    this.#status = status;
    this.#against = 0;
  }
}
