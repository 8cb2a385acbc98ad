import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { measuredAt } from "../../support/measured-at.ts";
import { memoryOf } from "../../support/processes/processes-with.ts";
import { LoadClient } from "../load.ts";
import { type RunningChild, startBenchGateway, startChild } from "../processes/programs.ts";
import {
  BENCH_FORMATS,
  type BenchFormat,
  type Directive,
  ENDLESS,
  replyRequestText,
  requestText,
} from "../processes/requests.ts";
import { type BenchResult, cpuMs, interleave, markdownTable, median, percentile, type Row } from "../report.ts";
import type { BenchSettings } from "../settings.ts";
import { pin, REFERENCE_NAMES, type Reference, startReferences } from "./references.ts";
import { SaturatingClient } from "./saturating-client.ts";

type Cell =
  | {
      readonly kind: "stream";
      readonly streams: number;
      readonly eventsPerSecond: number;
      readonly clocks: "random" | "step";
      /** Whether the gateway's other formats are measured, too. */
      readonly formats: boolean;
    }
  | { readonly kind: "request"; readonly bytes: number };

function stream(streams: number, eventsPerSecond = 50, clocks: "random" | "step" = "random", formats = false): Cell {
  return { kind: "stream", streams, eventsPerSecond, clocks, formats };
}
const request = (bytes: number): Cell => ({ kind: "request", bytes });

/** All cells. Thousands of streams get one delta per second, the limit of the client. */
const CELLS: readonly Cell[] = [
  ...[stream(1), stream(100), stream(200, 50, "random", true), stream(200, 50, "step"), stream(400)],
  ...[stream(1_000), stream(1_000, 1), stream(5_000, 1), request(1_000), request(100_000), request(1_000_000)],
];
const DEFAULT_CELLS: readonly Cell[] = [stream(200), request(1_000)];

function cellName(cell: Cell): string {
  if (cell.kind === "request") return `${cell.bytes / 1_000}KB`;
  return `${cell.streams}x${cell.eventsPerSecond}${cell.clocks === "step" ? "-step" : ""}`;
}

export const CELL_NAMES: readonly string[] = CELLS.map(cellName);

function cellsOf({ full, cells }: BenchSettings): readonly Cell[] {
  if (cells) return CELLS.filter((cell) => cells.includes(cellName(cell)));
  return full ? CELLS : DEFAULT_CELLS;
}

function cellTitle(cell: Cell): string {
  if (cell.kind === "request") return `requests of ${cell.bytes / 1_000} KB, 16 tokens in one piece, at saturation`;
  return `${cell.streams} streams x ${cell.eventsPerSecond} deltas/s, ${cell.clocks} clocks`;
}

const MEASURED = 0;
const OTHERS = 1;
const CONNECTIONS = 32;
const REPLY_TOKENS = 16;
const WARM_MS = 4_000;
const QUICK_WARM_MS = 3_000;
/** The time until all processes have detected that the streams are closed, in milliseconds. */
const LEAVE_MS = 200;
/** The polling interval and the limit of waiting for a target to become idle after a measurement. */
const REST_MS = 500;
const MOST_REST_MS = 5_000;
const RESTING = 0.1;
const PHASES = { random: 64, step: 1 } as const;

const GATEWAYS = {
  gateway: { upstream: { wire: "fast" } },
  "gateway-grpc": { upstream: { wire: "grpc" } },
} as const;

/** Omitted unless named: the default ends within ten minutes, the quick mode within one. */
const leftOut = ({ full, quick }: BenchSettings): readonly string[] =>
  full ? [] : quick ? ["gateway-grpc", "haproxy", "litellm"] : ["gateway-grpc"];

/** The references that pass every format; the others support chat only, or pass what they do not parse. */
const EVERY_FORMAT: readonly string[] = ["smg"];

export const STAND_TARGETS: readonly string[] = [...Object.keys(GATEWAYS), ...REFERENCE_NAMES];

type Stood = {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  readonly key: string;
  request(directive: Directive): string;
  restart?(): Promise<void>;
};

type EngineReady = { readonly address: string; readonly ssePort: number };

type StandReading = {
  /** CPU time per delta or request, in microseconds. */
  readonly cpuUs: number;
  readonly perSecond: number;
  /** From the engine's write to the client's read, or from request to reply, in milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Between two deltas of a stream, in milliseconds. */
  readonly gapP99Ms: number;
  readonly residentMb: number;
};

const READINGS = ["cpuUs", "perSecond", "p50Ms", "p99Ms", "gapP99Ms", "residentMb"] as const;
const COMPARED = ["nginx", "smg", "envoy"] as const;

export async function standBench(settings: BenchSettings): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "svc-stand-"));
  const several = cpus().length > 1;
  if (several) pin(process.pid, OTHERS);
  const engineProgram = join(import.meta.dirname, "../processes/engine-process.js");
  const engine = await startChild("engine", engineProgram, ["127.0.0.1"], folder);
  const { address, ssePort: originPort } = engine.ready as EngineReady;
  const wanted = (name: string) => settings.targets?.includes(name) ?? !leftOut(settings).includes(name);
  const gateways = await startGateways(address, folder, wanted);
  const names = REFERENCE_NAMES.filter(wanted);
  const { running, absent } = await startReferences(names, { originPort }, folder);
  try {
    const all = [
      ...gateways.flatMap(([name, gateway]) => gatewayTargets(name, gateway)),
      ...running.flatMap((reference) => referenceTargets(reference, several)),
    ];
    if (several) for (const { pid } of all) pin(pid, MEASURED);
    const rows: Row[] = [];
    for (const cell of cellsOf(settings)) rows.push(...(await measureCell(cell, all, settings)));
    const result = resultOf(rows, absent, settings, several);
    if (settings.page !== undefined) await writePage(settings.page, result);
    return result;
  } finally {
    for (const { stop } of [...running, ...gateways.map(([, gateway]) => gateway), engine]) await stop();
    await rm(folder, { recursive: true, force: true });
  }
}

type StoodGateway = RunningChild & Pick<Stood, "port" | "key">;

async function startGateways(
  address: string,
  folder: string,
  wanted: (name: string) => boolean,
): Promise<readonly (readonly [string, StoodGateway])[]> {
  const start = async (name: string, settings: object) =>
    [name, await startBenchGateway(join(folder, name), { engines: [address], settings })] as const;
  const started: (readonly [string, StoodGateway])[] = [];
  for (const [name, settings] of Object.entries(GATEWAYS)) if (wanted(name)) started.push(await start(name, settings));
  return started;
}

function gatewayTargets(name: string, { pid, port, key }: StoodGateway): readonly Stood[] {
  return BENCH_FORMATS.map((format) => ({
    ...{ name: nameOf(name, format), pid, port, key },
    request: (directive) => requestText(format, key, directive),
  }));
}

function referenceTargets(stood: Reference, several: boolean): readonly Stood[] {
  const { name, port } = stood;
  const formats = EVERY_FORMAT.includes(name) ? BENCH_FORMATS : (["chat"] as const);
  return formats.map((format) => ({
    ...{ name: nameOf(name, format), port, key: "none" },
    get pid() {
      return stood.pid;
    },
    async restart() {
      await stood.restart();
      if (several) pin(stood.pid, MEASURED);
    },
    request: (directive) => requestText(format, "none", directive),
  }));
}

function nameOf(name: string, format: BenchFormat): string {
  return format === "chat" ? name : `${name} ${format}`;
}

/** Waits until a target is idle; restarts it if it stays busy with abandoned responses. */
async function rest(target: Stood): Promise<void> {
  // Reading the CPU time of an ended process fails; it counts as busy.
  for (let waitedMs = 0; waitedMs < MOST_REST_MS; waitedMs += REST_MS)
    if (await rests(target).catch(() => false)) return;
  await target.restart?.();
}

async function rests(target: Stood): Promise<boolean> {
  const beforeMs = cpuMs(target.pid);
  await sleep(REST_MS);
  return cpuMs(target.pid) - beforeMs < RESTING * REST_MS;
}

async function measureCell(cell: Cell, all: readonly Stood[], settings: BenchSettings): Promise<readonly Row[]> {
  const chosen = all.filter(({ name }) => !name.includes(" ") || (cell.kind === "stream" && cell.formats));
  const failed = new Map<string, string>();
  const rounds = await interleave(chosen, settings.quick ? 1 : 3, async (target, counted) => {
    // In the quick mode only JIT-compiled targets are warmed.
    if (settings.quick && !counted && target.restart) return undefined;
    // Each further attempt would take the whole time limit for opening streams.
    if (failed.has(target.name)) return undefined;
    const span = {
      warmMs: settings.quick ? QUICK_WARM_MS : WARM_MS,
      seconds: counted ? settings.seconds : 0,
    };
    try {
      return cell.kind === "stream" ? await streams(target, cell, span) : await requests(target, cell, span);
    } catch (error) {
      failed.set(target.name, error instanceof Error ? error.message : String(error));
      return undefined;
    } finally {
      await rest(target);
    }
  });
  for (const [name, why] of failed) console.error(`${name}, ${cellTitle(cell)}: ${why}`);
  const readings = (name: string) => rounds.flatMap((round) => round.get(name) ?? []);
  const ratio = (name: string, to: string) => {
    // Compare within the same format if the reference supports it.
    const same = name.replace(/^\S+/, to);
    const other = chosen.some((target) => target.name === same) ? same : to;
    return median(
      rounds.flatMap((round) => (round.get(name)?.cpuUs ?? Number.NaN) / (round.get(other)?.cpuUs ?? Number.NaN)),
    );
  };
  return chosen.map(({ name }): Row => {
    const values = (reading: (typeof READINGS)[number]) => readings(name).map((one) => one[reading]);
    const range = values("cpuUs").map((us) => us.toFixed(1));
    return {
      ...{ cell: cellTitle(cell), target: name },
      ...Object.fromEntries(READINGS.map((reading) => [reading, median(values(reading))])),
      range: range.length > 0 ? `${range.sort((a, b) => Number(a) - Number(b))[0]}-${range.at(-1)}` : "failed",
      ...Object.fromEntries(COMPARED.map((to) => [`to_${to}`, ratio(name, to)])),
    };
  });
}

/** The load before the measurement in milliseconds, and the measurement in seconds. */
type Span = { readonly warmMs: number; readonly seconds: number };

async function streams(
  target: Stood,
  { streams: count, eventsPerSecond, clocks }: Cell & { readonly kind: "stream" },
  { warmMs, seconds }: Span,
): Promise<StandReading> {
  const directive = { eventsPerSecond, eventsPerWrite: 1, phases: PHASES[clocks], events: ENDLESS };
  const client = await LoadClient.open(target, Array<string>(count).fill(target.request(directive)));
  try {
    await sleep(warmMs);
    client.start();
    const before = cpuMs(target.pid);
    await sleep(seconds * 1_000);
    const { events, delaysMs, gapsMs } = client.read();
    const cpuUs = (cpuMs(target.pid) - before) * 1_000;
    return {
      ...{ cpuUs: cpuUs / events, perSecond: events / seconds },
      ...{ p50Ms: percentile(delaysMs, 0.5), p99Ms: percentile(delaysMs, 0.99), gapP99Ms: percentile(gapsMs, 0.99) },
      residentMb: memoryOf(target.pid) / 2 ** 20,
    };
  } finally {
    client.close();
    await sleep(LEAVE_MS);
  }
}

async function requests(
  target: Stood,
  { bytes }: Cell & { readonly kind: "request" },
  { warmMs, seconds }: Span,
): Promise<StandReading> {
  const text = replyRequestText(target.key, bytes, REPLY_TOKENS);
  const client = new SaturatingClient(target, text, CONNECTIONS);
  try {
    await sleep(warmMs);
    client.start();
    const before = cpuMs(target.pid);
    await sleep(seconds * 1_000);
    const timesMs = client.read();
    const cpuUs = (cpuMs(target.pid) - before) * 1_000;
    return {
      ...{ cpuUs: cpuUs / timesMs.length, perSecond: timesMs.length / seconds },
      ...{ p50Ms: percentile(timesMs, 0.5), p99Ms: percentile(timesMs, 0.99), gapP99Ms: Number.NaN },
      residentMb: memoryOf(target.pid) / 2 ** 20,
    };
  } finally {
    client.close();
  }
}

function resultOf(
  rows: readonly Row[],
  absent: readonly string[],
  settings: BenchSettings,
  several: boolean,
): BenchResult {
  return {
    title: "stand: the gateway beside what a user would take instead",
    columns: [
      { key: "cell", title: "load" },
      { key: "target", title: "in the middle" },
      { key: "cpuUs", title: "CPU us each" },
      { key: "range", title: "range" },
      ...COMPARED.map((to) => ({ key: `to_${to}`, title: `to ${to}`, digits: 2 })),
      { key: "perSecond", title: "each/s", digits: 0 },
      { key: "p50Ms", title: "p50 ms", digits: 2 },
      { key: "p99Ms", title: "p99 ms", digits: 1 },
      { key: "gapP99Ms", title: "p99 gap ms", digits: 1 },
      { key: "residentMb", title: "MB", digits: 0 },
    ],
    rows,
    notes: [
      "CPU: user and system time of the process in the middle, for a delta or a request. p50 and p99: from the engine's writing to the client's reading of a delta; the whole of a request.",
      `Medians of ${settings.quick ? 1 : 3} interleaved rounds of ${settings.seconds} s, each warmed right before; ratios are taken within a round, to the same format where it is there.`,
      several
        ? "The program in the middle has a processor to itself, client and engine share another."
        : "All share one processor.",
      absent.length > 0 ? `Absent: ${absent.join(", ")}.` : "No reference is absent.",
    ],
  };
}

/** Writes the results of the stand as a Markdown page. */
async function writePage(file: string, result: BenchResult): Promise<void> {
  const titles = new Set(result.rows.map(({ cell }) => String(cell)));
  const sections: string[] = [];
  await mkdir(dirname(file), { recursive: true });
  for (const title of titles) {
    const rows = result.rows.filter(({ cell }) => cell === title);
    const columns = result.columns.filter(({ key }) => key !== "cell");
    sections.push(`## ${title}\n\n${markdownTable(columns, rows)}`);
  }
  const machine = `A machine of ${cpus().length} x ${cpus()[0]?.model ?? "unknown"}.`;
  const head = [
    "# Performance",
    "Written by `npm run bench -- stand --page gateway/docs/performance.md`. Read ratios, not absolute figures: those are one machine's.",
    [...result.notes, machine, measuredAt()].join("\n"),
  ];
  await writeFile(file, `${[...head, ...sections].join("\n\n")}\n`);
}
