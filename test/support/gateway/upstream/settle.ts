import type { VirtualClock } from "../../virtual-clock.ts";

/** Virtual milliseconds after which pending work counts as stuck. */
const NEVER_MS = 600_000;
/** Virtual milliseconds of one step. */
const STEP_MS = 20;

type Timed = { readonly clock: VirtualClock };

/** Advances virtual time in steps until `done`: the network needs event loop turns in between. */
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

/** Advances virtual time until `over` is settled, and resolves or rejects as it does. */
export async function settle<T>(rig: Timed, over: Promise<T>, stepMs = STEP_MS): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  void over.then(end, end);
  await settleUntil(rig, () => isOver, "it is over", stepMs);
  return over;
}
