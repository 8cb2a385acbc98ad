import type { VirtualClock } from "../../virtual-clock.ts";

/** The virtual time, in milliseconds, after which what has not come to an end never will. */
const NEVER_MS = 600_000;
/** The virtual time of one step, in milliseconds. */
const STEP_MS = 20;

type Timed = { readonly clock: VirtualClock };

/**
 * Lets virtual time pass until `done`, in steps of `stepMs` milliseconds, 20 by default: what is on the wire needs turns of
 * the event loop in between.
 */
export async function settleUntil(
  { clock }: Timed,
  done: () => boolean,
  what = "it is over",
  stepMs = STEP_MS,
): Promise<void> {
  for (const lastMs = clock.nowMs() + NEVER_MS; !done(); ) {
    if (clock.nowMs() > lastMs) throw new Error(`it did not come to this: ${what}`);
    await clock.advance(stepMs);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Lets virtual time pass until `over` is settled, as `settleUntil` does, and resolves or rejects as it does. */
export async function settle<T>(rig: Timed, over: Promise<T>, stepMs = STEP_MS): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  void over.then(end, end);
  await settleUntil(rig, () => isOver, "it is over", stepMs);
  return over;
}
