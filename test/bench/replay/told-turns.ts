import type { ToldTurns } from "../../../gateway/upstream/admission/peer-gateways.ts";
import type { EventQueue } from "./event-queue.ts";
import type { Router } from "./routers/router.ts";

/** The time between two looks of a gateway at what the others tell, in milliseconds: that of a fleet of four. */
const LOOK_MS = 2_300;

/**
 * Has gateways tell each other what they have served and what waits, as the gateways of a fleet do: each looks at
 * moments of its own, leaves what it has to tell, and finds the newest of the others.
 */
export function tellEachOther(gateways: readonly Router[], time: EventQueue): void {
  const board = new Map<number, { readonly told: ToldTurns; readonly atMs: number }>();
  const look = (number: number, { tell, hear }: NonNullable<Router["peers"]>) => {
    board.set(number, { told: tell(), atMs: time.nowMs() });
    for (const [other, { told, atMs }] of board) if (other !== number) hear(`${other}`, told, atMs);
    time.after(LOOK_MS, () => look(number, { tell, hear }));
  };
  for (const [number, { peers }] of gateways.entries())
    if (peers) time.after((LOOK_MS * number) / gateways.length, () => look(number, peers));
}
