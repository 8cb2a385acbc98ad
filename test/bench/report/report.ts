import { cpus, loadavg } from "node:os";
import type { BenchResult } from "./bench-result.ts";
import { formatTable } from "./table.ts";

export type RunFacts = {
  readonly startedAt: string;
  readonly node: string;
  readonly cpus: number;
  readonly cpuModel: string;
  readonly quick: boolean;
  readonly seconds: number;
  readonly repetitions: number;
};

/** A bench's result with the load average before and after it. */
export type Measured = BenchResult & {
  readonly name: string;
  readonly loadBefore: number;
  readonly loadAfter: number;
};

export function machineFacts(): Pick<RunFacts, "node" | "cpus" | "cpuModel"> {
  return { node: process.version, cpus: cpus().length, cpuModel: cpus()[0]?.model ?? "unknown" };
}

export function loadAverage(): number {
  return loadavg()[0] ?? Number.NaN;
}

/** Formats a result as text: title, table, notes and load average. */
export function resultText(result: Measured): string {
  const load = `Load average ${result.loadBefore.toFixed(1)} before, ${result.loadAfter.toFixed(1)} after.`;
  const table = result.rows.length > 0 ? [formatTable(result.columns, result.rows)] : [];
  return ["", result.title, "", ...table, ...result.notes, load].join("\n");
}
