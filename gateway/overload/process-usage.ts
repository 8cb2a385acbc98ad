import { totalmem } from "node:os";

/** The limit of the container (cgroups 1 or 2) or, if there is none or it is higher, the machine's memory; bytes. */
export function memoryLimitBytes(): number {
  const machine = totalmem();
  // Absent or 0 without a limit, and nearly 2^64 for an unlimited cgroup.
  const container = process.constrainedMemory() || machine;
  return Math.min(container, machine);
}

let newestBytes = 0;

/** Bytes. Without a free descriptor the system cannot be asked: then the previous value, 0 at first. */
export function residentBytes(): number {
  try {
    newestBytes = process.memoryUsage.rss();
  } catch {
    // Exhausted descriptors must not end the process.
  }
  return newestBytes;
}
