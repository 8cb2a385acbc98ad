import { readFileSync } from "node:fs";

/** The file with the CPU time of the reading thread on Linux, in nanoseconds, as its first number. */
const SCHEDULED = "/proc/thread-self/schedstat";

/**
 * Returns the CPU time of this thread, in milliseconds from an arbitrary start; the load of the machine hardly affects
 * it. Without the file it is the elapsed time. The file is as old as the system's last tick, up to 4 ms; reading the
 * CPU time of the whole process makes the system update it.
 */
export function threadCpuMs(): number {
  try {
    process.cpuUsage();
    return Number.parseInt(readFileSync(SCHEDULED, "latin1"), 10) / 1e6;
  } catch {
    return performance.now();
  }
}
