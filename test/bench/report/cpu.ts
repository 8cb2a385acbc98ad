import { readFileSync } from "node:fs";

/** Linux reports these times in hundredths of a second, whatever the kernel's clock is. */
const TICK_MS = 10;

/** Returns the user and system time of all threads, in milliseconds, from a text of `/proc/<pid>/stat`. */
export function parseProcessStat(stat: string): number {
  // The program's name is in parentheses and may contain spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // Fields 14 and 15 in proc(5), without the two before the closing parenthesis.
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/**
 * Returns the CPU time of a process since its start, in milliseconds, in steps of 10. Throws if there is no such
 * process.
 */
export function cpuMs(pid: number): number {
  return parseProcessStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

/** A target with or without process. */
type Measured = { readonly pid: number | undefined };

/** Returns the CPU time of a target's process, in milliseconds; NaN without process. */
export function cpuOf({ pid }: Measured): number {
  return pid === undefined ? Number.NaN : cpuMs(pid);
}

/** Returns the resident memory of a target's process, in MB; NaN without process. */
export function residentOf({ pid }: Measured): number {
  return pid === undefined ? Number.NaN : residentMb(pid);
}

/** Returns the resident memory of a process, in MB. Throws if there is no such process. */
export function residentMb(pid: number): number {
  const kilobytes = /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1024;
}
