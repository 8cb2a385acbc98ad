import type { VirtualClock } from "../../virtual-clock.ts";

/** The time, in milliseconds of the machine's clock, after which what has not come to an end never will. */
const NEVER_MS = 55_000;

type Timed = { readonly clock: VirtualClock };

/** Lets virtual time pass until `done`, in small steps: what is on the wire needs real time in between. */
export async function settleUntil({ clock }: Timed, done: () => boolean, what = "it is over"): Promise<void> {
  for (const lastMs = Date.now() + NEVER_MS; !done(); ) {
    if (Date.now() > lastMs) throw new Error(`it did not come to this: ${what}`);
    await clock.advance(20);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Lets virtual time pass until `over` is settled, and resolves or rejects as it does. */
export async function settle<T>(rig: Timed, over: Promise<T>): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  void over.then(end, end);
  await settleUntil(rig, () => isOver);
  return over;
}
