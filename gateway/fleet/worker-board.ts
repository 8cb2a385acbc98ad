import type { Channel } from "../../deploy/runtime/process/process-channel.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { FleetBoard } from "./fleet-board.ts";
import type { GatewayReport, SeenReport } from "./gateway-report.ts";

/** The field by which messages about the fleet are told from others on the same process channel. */
export const FLEET_TOPIC = "fleet";

/** The time after which the process that carries reports counts as silent, in milliseconds: on one machine it is stuck. */
const ANSWER_MS = 1_000;

/** What a gateway worker tells the process that carries the reports of all. It uses each `id` once. */
export type FleetRequest = { readonly fleet: "report"; readonly id: number; readonly report: GatewayReport };

/** The answer to a report: those of all workers. */
export type FleetReply = { readonly fleet: "reports"; readonly id: number; readonly reports: readonly SeenReport[] };

/** Answers the gateway worker at the other end of `channel` from `board`. */
export function answerReports(board: FleetBoard, channel: Channel<FleetReply, FleetRequest>): void {
  channel.onMessage(({ id, report }) => {
    void board.exchange(report).then((reports = []) => channel.send({ fleet: "reports", id, reports }));
  });
}

/** The board of one gateway worker, which the process that started it keeps for all. */
export class WorkerBoard implements FleetBoard {
  readonly #channel: Channel<FleetRequest, FleetReply>;
  readonly #clock: Pick<Clock, "after">;
  readonly #unanswered = new Map<number, (reports: readonly SeenReport[]) => void>();
  #lastId = 0;

  /** Makes the board at the worker's end of `channel`; `clock` times the other end's answers. */
  constructor(channel: Channel<FleetRequest, FleetReply>, clock: Pick<Clock, "after">) {
    this.#channel = channel;
    this.#clock = clock;
    channel.onMessage(({ id, reports }) => {
      this.#unanswered.get(id)?.(reports);
      this.#unanswered.delete(id);
    });
  }

  /** Passes the report on. Resolves to those of all workers; undefined where there is no answer within a second. */
  exchange(report: GatewayReport): Promise<readonly SeenReport[] | undefined> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ANSWER_MS, () => {
        this.#unanswered.delete(id);
        resolve(undefined);
      });
      this.#unanswered.set(id, (reports) => {
        cancel();
        resolve(reports);
      });
      this.#channel.send({ fleet: "report", id, report });
    });
  }
}
