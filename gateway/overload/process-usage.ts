import { totalmem } from "node:os";

/**
 * Returns the memory limit of this process, in bytes: the limit of its container (cgroups version 1 or 2) or, if there
 * is none or it is higher, the memory of the machine.
 */
export function memoryLimitBytes(): number {
  const machine = totalmem();
  // Absent or 0 without a limit, and nearly 2^64 for an unlimited cgroup.
  const container = process.constrainedMemory() || machine;
  return Math.min(container, machine);
}

let newestBytes = 0;

/**
 * Returns the resident set size of this process, in bytes. Without a free descriptor the system cannot be asked: then
 * it is the previous value, 0 at first.
 */
export function residentBytes(): number {
  try {
    newestBytes = process.memoryUsage.rss();
  } catch {
    // Exhausted descriptors must not end the process.
  }
  return newestBytes;
}
