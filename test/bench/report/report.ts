import { cpus, loadavg } from "node:os";
import type { BenchResult } from "./bench-result.ts";
import { formatTable } from "./table.ts";

/** What a file of results says about where and when it was made. */
export type RunFacts = {
  readonly startedAt: string;
  readonly node: string;
  readonly cpus: number;
  readonly cpuModel: string;
  readonly quick: boolean;
  readonly seconds: number;
  readonly repetitions: number;
};

/** A bench's result with the load of the machine before and after it. */
export type Measured = BenchResult & {
  readonly name: string;
  readonly loadBefore: number;
  readonly loadAfter: number;
};

/** Returns which Node runs and on which processors. */
export function machineFacts(): Pick<RunFacts, "node" | "cpus" | "cpuModel"> {
  return { node: process.version, cpus: cpus().length, cpuModel: cpus()[0]?.model ?? "unknown" };
}

/** Returns the number of processes that wanted to run, averaged over the last minute. */
export function loadAverage(): number {
  return loadavg()[0] ?? Number.NaN;
}

/** Formats a result as text: its title, its table, its notes and the load of the machine. */
export function resultText(result: Measured): string {
  const load = `Load average ${result.loadBefore.toFixed(1)} before, ${result.loadAfter.toFixed(1)} after.`;
  const table = result.rows.length > 0 ? [formatTable(result.columns, result.rows)] : [];
  return ["", result.title, "", ...table, ...result.notes, load].join("\n");
}
