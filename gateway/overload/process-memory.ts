import { totalmem } from "node:os";

/**
 * Returns the memory that this process may take, in bytes: the limit of its container (of cgroups, version 1 or 2) or,
 * where that is none or more than there is, the memory of the machine.
 */
export function memoryLimitBytes(): number {
  const machine = totalmem();
  // Absent or 0 where nothing limits the process, and nearly 2^64 where its cgroup says so.
  const container = process.constrainedMemory() || machine;
  return Math.min(container, machine);
}

let newestBytes = 0;

/**
 * Returns the memory of this process that is in the machine's memory, in bytes: heap, buffers, stacks and libraries. A
 * process that has no descriptor left cannot ask the system: then it is what it was the last time, 0 at first.
 */
export function residentBytes(): number {
  try {
    newestBytes = process.memoryUsage.rss();
  } catch {
    // Whoever takes all descriptors must not end the process by that.
  }
  return newestBytes;
}
