import { setTimeout as sleep } from "node:timers/promises";
import { type Directive, ENDLESS } from "../processes/directive.ts";
import { cpuOf, residentOf } from "../report/cpu.ts";
import { percentile } from "../report/percentile.ts";
import { LoadClient } from "./load-client.ts";
import type { Target } from "./target.ts";

/** Streams begin at different moments and code gets hot: what comes in this time is not measured, in milliseconds. */
export const SETTLE_MS = 500;
/** The time until everybody has seen that the streams are left, in milliseconds. */
const LEAVE_MS = 200;

/** What every stream plays, and the number of streams at once. */
export type Load = Omit<Directive, "events" | "id"> & { readonly streams: number };

/** One measured stretch of one target; a number is NaN where nothing stands in the middle. */
export type Window = {
  readonly events: number;
  readonly frames: number;
  /** The processor time of the process in the middle, in microseconds. */
  readonly cpuUs: number;
  readonly delayP50Ms: number;
  readonly delayP99Ms: number;
  readonly firstByteP50Ms: number;
  /** The time between two events of one stream that one in a hundred is longer than, in milliseconds. */
  readonly gapP99Ms: number;
  /** The longest of these times, in milliseconds. */
  readonly gapMostMs: number;
  /** The resident memory of the process in the middle with all its streams, in MB. */
  readonly residentMb: number;
};

/**
 * Puts the load on the target and measures for `seconds`, after `settleMs` of the same load. `keepDelays` says whether
 * the delay of every event is kept, which must not be where the client would become what is measured. `atBorders` is
 * waited for where the measured stretch begins, and where it ends, with all streams still open.
 */
export async function measureWindow(
  target: Target,
  load: Load,
  seconds: number,
  keepDelays: boolean,
  settleMs = SETTLE_MS,
  atBorders = async (): Promise<void> => {},
): Promise<Window> {
  const { streams, ...pace } = load;
  const request = target.request({ ...pace, events: ENDLESS });
  const client = await LoadClient.open(
    target,
    Array.from({ length: streams }, () => request),
  );
  try {
    await sleep(settleMs);
    await atBorders();
    client.start(keepDelays);
    const cpuBefore = cpuOf(target);
    await sleep(seconds * 1000);
    const { events, frames, delaysMs, gapsMs } = client.read();
    const cpuAfter = cpuOf(target);
    await atBorders();
    return {
      events,
      frames,
      cpuUs: (cpuAfter - cpuBefore) * 1000,
      delayP50Ms: percentile(delaysMs, 0.5),
      delayP99Ms: percentile(delaysMs, 0.99),
      firstByteP50Ms: percentile(client.firstByteMs, 0.5),
      gapP99Ms: percentile(gapsMs, 0.99),
      gapMostMs: percentile(gapsMs, 1),
      residentMb: residentOf(target),
    };
  } finally {
    client.close();
    await sleep(LEAVE_MS);
  }
}
