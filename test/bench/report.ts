import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A row of a result, with unrounded numbers; NaN for missing measurements. */
export type Row = Readonly<Record<string, number | string>>;

export type Column = {
  readonly key: string;
  readonly title: string;
  /** The digits after the decimal point. Default: 1. */
  readonly digits?: number;
};

/** Ratios stand in the first columns: unlike absolute figures, they are meaningful on a busy machine. */
export type BenchResult = {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly notes: readonly string[];
};

/** Returns the percentile `p` (0 to 1) of the values, the nearest value from above; NaN without values. */
export function percentile(values: readonly number[], p: number): number {
  const sorted = Float64Array.from(values).sort();
  const at = Math.ceil(p * sorted.length) - 1;
  return sorted[Math.max(0, at)] ?? Number.NaN;
}

/** Returns the median, between the two middle values if their number is even; NaN without values. */
export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length / 2;
  const upper = sorted[Math.floor(half)] ?? Number.NaN;
  const lower = sorted[Math.ceil(half) - 1] ?? Number.NaN;
  return (lower + upper) / 2;
}

export type Rounds<M> = readonly ReadonlyMap<string, M>[];

/** Returns the median of a target's `value` over the rounds; NaN if not measured. */
export function medianOf<M>(rounds: Rounds<M>, name: string, value: (measured: M) => number): number {
  return median(rounds.map((round) => measuredValue(round, name, value)));
}

export function medianRatio<M>(rounds: Rounds<M>, name: string, to: string, value: (measured: M) => number): number {
  return median(rounds.map((round) => measuredValue(round, name, value) / measuredValue(round, to, value)));
}

function measuredValue<M>(round: ReadonlyMap<string, M>, name: string, value: (measured: M) => number): number {
  const measured = round.get(name);
  return measured === undefined ? Number.NaN : value(measured);
}

/** Measures all targets in turn, so that other load affects them alike. A first round, `counted` false, warms them. */
export async function interleave<T extends { readonly name: string }, M>(
  targets: readonly T[],
  repetitions: number,
  measure: (target: T, counted: boolean) => Promise<M>,
): Promise<ReadonlyMap<string, M>[]> {
  const rounds: ReadonlyMap<string, M>[] = [];
  for (let round = 0; round <= repetitions; round += 1) {
    const measured = new Map<string, M>();
    for (const target of targets) measured.set(target.name, await measure(target, round > 0));
    if (round > 0) rounds.push(measured);
  }
  return rounds;
}

const TICK_MS = 10;

/** Returns the CPU time of a process in milliseconds, in steps of 10. Throws if there is no such process. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The program's name is in parentheses and may contain spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // Fields 14 and 15 in proc(5), without the two before the closing parenthesis.
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Formats rows as aligned text: words left, numbers right, a dash for missing measurements. */
export function formatTable(columns: readonly Column[], rows: readonly Row[]): string {
  const cells = rows.map((row) => columns.map((column) => cell(row[column.key], column.digits ?? 1)));
  const widths = columns.map(({ title }, at) =>
    Math.max(title.length, ...cells.map((texts) => texts[at]?.length ?? 0)),
  );
  const isText = columns.map(({ key }) => rows.some((row) => typeof row[key] === "string"));
  const line = (texts: readonly string[]) =>
    texts
      .map((text, at) => (isText[at] ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)))
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [line(columns.map(({ title }) => title)), rule, ...cells.map(line)].join("\n");
}

function cell(value: number | string | undefined, digits: number): string {
  if (typeof value === "string") return value;
  return value === undefined || Number.isNaN(value) ? "-" : value.toFixed(digits);
}

export function markdownTable(columns: readonly Column[], rows: readonly Row[]): string {
  const line = (texts: readonly string[]) => `| ${texts.join(" | ")} |`;
  const cells = rows.map((row) => line(columns.map(({ key, digits }) => cell(row[key], digits ?? 1))));
  return [line(columns.map(({ title }) => title)), line(columns.map(() => "---")), ...cells].join("\n");
}

export type Measured = BenchResult & {
  readonly name: string;
  readonly loadBefore: number;
  readonly loadAfter: number;
};

export function resultText(result: Measured): string {
  const load = `Load average ${result.loadBefore.toFixed(1)} before, ${result.loadAfter.toFixed(1)} after.`;
  const table = result.rows.length > 0 ? [formatTable(result.columns, result.rows)] : [];
  return ["", result.title, "", ...table, ...result.notes, load].join("\n");
}

/** Calls `measure` with a new folder, which is removed afterwards. */
export async function inFolder<Result>(name: string, measure: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), `svc-bench-${name}-`));
  return measure(folder).finally(() => rm(folder, { recursive: true, force: true }));
}
