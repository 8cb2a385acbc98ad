import { setTimeout as sleep } from "node:timers/promises";
import { type Directive, ENDLESS } from "../processes/directive.ts";
import { cpuOf, residentOf } from "../report/cpu.ts";
import { percentile } from "../report/percentile.ts";
import { LoadClient } from "./load-client.ts";
import type { Target } from "./target.ts";

/** The time for streams to start at different moments and for JIT compilation, not measured, in milliseconds. */
export const SETTLE_MS = 500;
/** The time until all processes have detected that the streams are closed, in milliseconds. */
const LEAVE_MS = 200;

export type Load = Omit<Directive, "events" | "id"> & { readonly streams: number };

/** One measurement of a target; numbers of the process are NaN if there is none in the middle. */
export type Window = {
  readonly events: number;
  readonly frames: number;
  /** CPU time of the process in the middle, in microseconds. */
  readonly cpuUs: number;
  readonly delayP50Ms: number;
  readonly delayP99Ms: number;
  readonly firstByteP50Ms: number;
  /** The 99th percentile of the time between two events of a stream, in milliseconds. */
  readonly gapP99Ms: number;
  /** The maximum of these times, in milliseconds. */
  readonly gapMostMs: number;
  /** The resident memory of the process in the middle with all its streams, in MB. */
  readonly residentMb: number;
};

/**
 * Applies the load to the target and measures for `seconds`, after `settleMs` of the same load. `keepDelays` keeps the
 * delay of every event; off if the client would become the bottleneck. `atBorders` is awaited at the beginning and end
 * of the measurement, with all streams open.
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
