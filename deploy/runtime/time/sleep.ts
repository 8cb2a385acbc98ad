import { waitUnlessAborted } from "./abort.ts";
import type { Clock } from "./clock.ts";

/**
 * Resolves after `ms` milliseconds, or when `signal` is aborted; `signal.aborted` distinguishes the two. Never rejects.
 */
export async function sleep(clock: Pick<Clock, "after">, ms: number, signal: AbortSignal): Promise<void> {
  await waitUnlessAborted<void>(signal, (wake) => clock.after(ms, wake));
}
