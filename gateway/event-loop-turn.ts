import { setImmediate } from "node:timers/promises";

/**
 * The size of text up to which it is handled in one turn: that takes about 5 ms, a quarter of what one request may hold
 * the event loop.
 */
const OWN_TURN_BYTES = 256 * 1024;

/** Work in steps: it may be left for a while at each `yield`, and returns its result at the end. */
export type Steps<T> = Generator<undefined, T, void>;

/** Returns whether the steps of handling `bytes` of text are to have turns of the event loop of their own. */
export function needsTurns(bytes: number): boolean {
  return bytes > OWN_TURN_BYTES;
}

/** Waits until everything that waits for the event loop has had its turn. */
export function nextTurn(): Promise<void> {
  return setImmediate();
}

/** Runs `steps` without a pause and returns their result. Throws what they throw. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/**
 * Runs each of `steps` in a turn of its own and resolves to their result. `mayGoOn` is called between them and throws
 * to end it all.
 */
export async function inTurns<T>(steps: Steps<T>, mayGoOn: () => void): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await nextTurn();
    mayGoOn();
  }
}
