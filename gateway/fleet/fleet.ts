import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { FleetBoard } from "./fleet-board.ts";
import { FleetHistory } from "./fleet-history.ts";
import type { GatewayReport, SeenReport } from "./gateway-report.ts";

/** The time between two looks of a gateway that is alone, in milliseconds. */
const LOOK_MS = 2_000;
/** What each further gateway adds to that, in milliseconds, so that all of them together ask no more often. */
const LOOK_MS_EACH = 100;

/** What following a fleet works with. */
export type FleetOptions = {
  /** Carries the reports. */
  readonly board: FleetBoard;
  /** Returns what this gateway has to tell of itself. */
  readonly report: () => GatewayReport;
  /** The clock by which reports are exchanged, and points of the charts are dated. */
  readonly clock: Clock;
};

/** Follows all gateways that belong together, this one among them, and keeps what went on over the last hour. */
export class Fleet {
  /** What went on over the last hour. */
  readonly history = new FleetHistory();
  readonly #options: FleetOptions;
  #seen: readonly SeenReport[] = [];
  #shared = true;
  #cancel = () => {};
  #closed = false;

  private constructor(options: FleetOptions) {
    this.#options = options;
  }

  /** Begins to follow. Resolves after the first look. */
  static async open(options: FleetOptions): Promise<Fleet> {
    const fleet = new Fleet(options);
    await fleet.#look();
    return fleet;
  }

  /** The newest reports of all gateways of the last minute; only this one's while whoever carries them is silent. */
  get seen(): readonly SeenReport[] {
    return this.#seen;
  }

  /** Whether the reports of all gateways are known: false while whoever carries them is silent. */
  get shared(): boolean {
    return this.#shared;
  }

  /** Stops following. */
  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  async #look(): Promise<void> {
    const { board, report, clock } = this.#options;
    const own = report();
    const seen = await board.exchange(own);
    this.#shared = seen !== undefined;
    this.#seen = seen ?? [{ report: own, ageMs: 0 }];
    // One that tells nothing any more has gone, and what it ran with it.
    const living = this.#seen.filter(({ ageMs }) => ageMs < this.lateMs);
    this.history.add(
      living.map((one) => one.report),
      clock.nowMs(),
      clock.wallMs(),
    );
    if (!this.#closed) this.#cancel = clock.after(this.#everyMs, () => void this.#look());
  }

  /** The age, in milliseconds, from which on a report says that its gateway does not answer: three looks. */
  get lateMs(): number {
    return 3 * this.#everyMs + LOOK_MS;
  }

  get #everyMs(): number {
    return LOOK_MS + LOOK_MS_EACH * Math.max(0, this.#seen.length - 1);
  }
}
