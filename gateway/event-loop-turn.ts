import { setImmediate } from "node:timers/promises";

/** All that is done with less text takes about 5 ms, a quarter of what one request may hold the event loop. */
const OWN_TURN_BYTES = 256 * 1024;

/** Work that may be left for a while at each `yield`. */
export type Steps<T> = Generator<undefined, T, void>;

/** Whether the steps of handling so much text are to have turns of the event loop of their own. */
export function needsTurns(bytes: number): boolean {
  return bytes > OWN_TURN_BYTES;
}

/** Lets everything go on that waits for the event loop. */
export function nextTurn(): Promise<void> {
  return setImmediate();
}

/** The result of `steps`, without a pause. Throws what they throw. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** The result of `steps`, each in a turn of its own. `mayGoOn` is called between them and throws to end it all. */
export async function inTurns<T>(steps: Steps<T>, mayGoOn: () => void): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await nextTurn();
    mayGoOn();
  }
}
