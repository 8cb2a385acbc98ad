import { readFileSync } from "node:fs";

/** The file in which Linux tells the CPU time of the thread that reads it, in nanoseconds, as the first of its numbers. */
const SCHEDULED = "/proc/thread-self/schedstat";

/**
 * Returns the CPU time that this thread has used, in milliseconds from any beginning: what else runs on the machine hardly
 * shows in it. Where the system does not tell, it is the time that has passed. The file is as old as the last tick of the
 * system, which is up to 4 ms; asking for the time of the whole process has the system bring this thread's up to now.
 */
export function threadCpuMs(): number {
  try {
    process.cpuUsage();
    return Number.parseInt(readFileSync(SCHEDULED, "latin1"), 10) / 1e6;
  } catch {
    return performance.now();
  }
}
