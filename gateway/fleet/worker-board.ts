import { OpenQuestions } from "../../deploy/runtime/process/open-questions.ts";
import type { Channel } from "../../deploy/runtime/process/process-channel.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { FleetBoard } from "./fleet-board.ts";
import type { GatewayReport, SeenReport } from "./gateway-report.ts";

/** The field by which messages about the fleet are told from others on the same process channel. */
export const FLEET_TOPIC = "fleet";

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
  readonly #questions: OpenQuestions<readonly SeenReport[]>;

  /** Makes the board at the worker's end of `channel`; `clock` times the other end's answers. */
  constructor(channel: Channel<FleetRequest, FleetReply>, clock: Pick<Clock, "after">) {
    this.#channel = channel;
    this.#questions = new OpenQuestions(clock);
    channel.onMessage(({ id, reports }) => this.#questions.answer(id, reports));
  }

  /** Passes the report on. Resolves to those of all workers; undefined where there is no answer within a second. */
  exchange(report: GatewayReport): Promise<readonly SeenReport[] | undefined> {
    return this.#questions.ask((id) => this.#channel.send({ fleet: "report", id, report }));
  }
}
