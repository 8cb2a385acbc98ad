import { TurnSlices } from "../time/turn-slices.ts";
import { FairTurns, type TurnItem } from "./fair-turns.ts";

/**
 * Spreads work that callers cause at one time over turns of the event loop, so that it holds up neither what else runs there
 * nor another caller's work: callers take turns, and whoever has little to do waits for little of the others'.
 */
export class FairSlices {
  readonly #slices: TurnSlices;
  readonly #waiting = new FairTurns<TurnItem & { readonly work: () => void }>();

  /** Starts without any work. `perTurn` is the number of pieces of work in one turn, that of `TurnSlices` by default. */
  constructor(perTurn?: number) {
    this.#slices = new TurnSlices(perTurn);
  }

  /** Does `work` now, or in a later turn where enough was done in this one. `caller` says who takes turns. */
  run(caller: string, work: () => void): void {
    this.#waiting.push({ key: caller, cost: 1, work });
    this.#slices.run(() => this.#waiting.take()?.item.work());
  }
}
