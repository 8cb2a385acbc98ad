import { readFileSync } from "node:fs";

/** Linux counts these in hundredths of a second for every program, whatever the kernel's own clock is. */
const TICK_MS = 10;

/** Reads the user and system time of all threads together, in milliseconds, from a text of `/proc/<pid>/stat`. */
export function parseProcessStat(stat: string): number {
  // The name of the program stands in brackets and may itself hold blanks and brackets.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // Fields 14 and 15 in proc(5); the two before the bracket's end are gone.
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/**
 * Returns the CPU time that a process has used since its start, in milliseconds, in steps of 10. Throws when there is
 * no such process.
 */
export function cpuMs(pid: number): number {
  return parseProcessStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

/** What is measured: a process, or nothing. */
type Measured = { readonly pid: number | undefined };

/** Returns the CPU time of the process of a target, in milliseconds; NaN where it has none. */
export function cpuOf({ pid }: Measured): number {
  return pid === undefined ? Number.NaN : cpuMs(pid);
}

/** Returns the resident memory of the process of a target, in MB; NaN where it has none. */
export function residentOf({ pid }: Measured): number {
  return pid === undefined ? Number.NaN : residentMb(pid);
}

/** Returns the resident memory of a process, in MB. Throws when there is no such process. */
export function residentMb(pid: number): number {
  const kilobytes = /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1024;
}
