import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { GatewayReport, SeenReport } from "./gateway-report.ts";

/** The time after its newest report after which a gateway is forgotten, in milliseconds. */
export const FORGOTTEN_MS = 60_000;

/** Carries what gateways that belong together tell of themselves: the workers on one port, or all that share a store. */
export type FleetBoard = {
  /**
   * Takes the newest report of this gateway. Resolves to those of all gateways of the last minute, its own among them;
   * undefined where whoever carries them is silent. It never rejects.
   */
  exchange(report: GatewayReport): Promise<readonly SeenReport[] | undefined>;
};

/** Keeps the newest report of each gateway in this process. */
export class FleetBook implements FleetBoard {
  readonly #clock: Pick<Clock, "nowMs">;
  readonly #reports = new Map<string, { readonly report: GatewayReport; readonly atMs: number }>();

  /** Makes an empty book; `clock` dates the reports. */
  constructor(clock: Pick<Clock, "nowMs">) {
    this.#clock = clock;
  }

  /** Takes a report and resolves to all that are not too old. */
  async exchange(report: GatewayReport): Promise<readonly SeenReport[]> {
    const nowMs = this.#clock.nowMs();
    this.#reports.set(report.id, { report, atMs: nowMs });
    for (const [id, { atMs }] of this.#reports) if (nowMs - atMs > FORGOTTEN_MS) this.#reports.delete(id);
    return [...this.#reports.values()].map((seen) => ({ report: seen.report, ageMs: nowMs - seen.atMs }));
  }
}
