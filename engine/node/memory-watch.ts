import { collectGarbage } from "../../deploy/runtime/process/collect-garbage.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

/** The time between two looks, in milliseconds. */
const LOOK_MS = 10_000;
/** The time in which garbage is collected at most once, in milliseconds. */
const MIN_INTERVAL_MS = 60_000;
/** The growth from which a collection is worth holding the event loop, in bytes. */
const WORTHWHILE_BYTES = 32 * 1024 * 1024;
/** The utilization of the event loop from which others would notice a collection. */
const BUSY_UTILIZATION = 0.25;

/** What a memory watch looks at, and what it does. */
export type MemoryWatchParts = {
  /** Measures the time between two looks. */
  readonly clock: Pick<Clock, "nowMs" | "after">;
  /** Returns the resident memory of the process, in bytes. Default: what the system says. */
  readonly residentBytes?: () => number;
  /** Returns the share of the time since it was last asked in which the event loop was busy, from 0 to 1. */
  readonly utilization?: () => number;
  /** Collects all garbage. Default: V8 is asked to. */
  readonly collect?: () => void;
};

/**
 * Has garbage collected where a node's memory has grown by 32 MiB since it last was, and its event loop has time: at most
 * once a minute. V8 knows nothing of the memory that the engine's grammars and their states hold outside its heap, sees
 * only their small handles, and may let them lie for a long time once the work is over that has made them. The returned
 * function ends it.
 */
export function watchMemory({
  clock,
  residentBytes = process.memoryUsage.rss,
  utilization = loopUtilization(),
  collect = collectGarbage,
}: MemoryWatchParts): () => void {
  let collectedMs = clock.nowMs();
  let restBytes = Number.POSITIVE_INFINITY;
  const look = () => {
    stop = clock.after(LOOK_MS, look);
    const [bytes, busy, nowMs] = [residentBytes(), utilization(), clock.nowMs()];
    restBytes = Math.min(restBytes, bytes);
    if (bytes - restBytes < WORTHWHILE_BYTES || busy >= BUSY_UTILIZATION || nowMs - collectedMs < MIN_INTERVAL_MS)
      return;
    collect();
    collectedMs = nowMs;
    // What is left is in use; how much that is shows at the next look, as allocators give memory back with a delay.
    restBytes = Number.POSITIVE_INFINITY;
  };
  let stop = clock.after(LOOK_MS, look);
  return () => stop();
}

function loopUtilization(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}
