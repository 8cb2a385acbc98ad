import { readdirSync, readFileSync } from "node:fs";

/** Returns the ids of the processes whose command line contains `text`; on Linux only. */
export function processesWith(text: string): number[] {
  const ids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return ids.filter((id) => commandOf(id).includes(text)).map(Number);
}

/** "" if it has ended meanwhile. */
function commandOf(id: string): string {
  try {
    return readFileSync(`/proc/${id}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

/** Returns the resident memory of a process in bytes, or its peak, `VmHWM`; on Linux only. */
export function memoryOf(pid: number | undefined, field: "VmRSS" | "VmHWM" = "VmRSS"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(status)?.[1]) * 1024;
}
