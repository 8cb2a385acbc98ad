import type { FastifyRequest } from "fastify";
import { FairTurns, type TurnItem } from "../../../deploy/runtime/queue/fair-turns.ts";
import { TurnSlices } from "../../../deploy/runtime/time/turn-slices.ts";

/** The requests that begin in one turn of the event loop: keys, limits and the first look at a body take some 0.2 ms each. */
const PER_TURN = 16;

/**
 * Spreads the beginnings of requests over turns of the event loop, so that a thousand whose heads came at once hold up
 * neither the answers that run nor another caller's request. Whoever sent few of them waits for few: callers take turns.
 */
export class Arrivals {
  readonly #slices = new TurnSlices(PER_TURN);
  readonly #waiting = new FairTurns<TurnItem & { readonly start: () => void }>();

  /** Calls `start` now, or in a later turn where enough requests began in this one. `caller` says who takes turns. */
  begin(caller: string, start: () => void): void {
    this.#waiting.push({ key: caller, cost: 1, start });
    this.#slices.run(() => this.#waiting.take()?.item.start());
  }
}

/**
 * Returns who sent a request, as far as its head says before it is known whether that is true: the key that it shows, or
 * its address.
 */
export function callerOf({ raw: { headers, socket } }: Pick<FastifyRequest, "raw">): string {
  return String(headers.authorization ?? headers["x-api-key"] ?? socket.remoteAddress);
}
