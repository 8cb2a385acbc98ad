import type { HealthThresholds } from "./health-settings.ts";

/**
 * Judges a row of health checks by Envoy's thresholds. The very first check decides alone: who waits for it has no
 * older knowledge to protect.
 */
export class HealthState {
  readonly #thresholds: HealthThresholds;
  #status: "pending" | "healthy" | "unhealthy" = "pending";
  /** The number of checks in a row that spoke against the status. */
  #against = 0;

  constructor(thresholds: HealthThresholds) {
    this.#thresholds = thresholds;
  }

  /** Whether the checks so far found it healthy; false before the first one. */
  get healthy(): boolean {
    return this.#status === "healthy";
  }

  /** Whether the checks so far found it healthy, and the newest one spoke for that, too. */
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

  /** Makes the state unhealthy at once, without a second look, as when the node itself says that it does not serve. */
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
