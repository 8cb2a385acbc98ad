import { mkdtemp, rm } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Load, measureWindow } from "./load/load-window.ts";
import { SaturatingClient } from "./load/saturating-client.ts";
import { startChild } from "./processes/child-process.ts";
import { GATEWAY_PROGRAM, startBenchGateway } from "./processes/gateway-process.ts";
import { replyRequestText, requestText } from "./processes/request-text.ts";
import type { Target } from "./processes/targets.ts";
import { pin } from "./references/reference.ts";
import { startReferences } from "./references/references.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { cpuMs } from "./report/cpu.ts";
import { interleave } from "./report/interleave.ts";
import { median } from "./report/percentile.ts";
import type { BenchSettings } from "./settings.ts";

/** The processor of the gateway; client and engine have another one. */
const MEASURED = 0;
const OTHERS = 1;
const REQUEST_BYTES = 1_000;
const REPLY_TOKENS = 16;
/** As in the measurements that the goal comes from: a few callers, each of which asks again when it has its answer. */
const CONNECTIONS = 4;
const SLICE_MS = 500;
/** The time after which a process counts as warm, in milliseconds. */
const WARM_MS = 15_000;
const WARM_SLICES = 6;

/** The setting `warmUpMs` of each gateway that is compared. */
const WARM_UPS = { "warmed up": undefined, cold: 0 } as const;

/** The streams that come together to a new process. */
const BURST: Load = { streams: 200, eventsPerSecond: 50, eventsPerWrite: 1, phases: 64 };

/** What was read of a new process; NaN where it was not measured. */
type Reading = {
  readonly readyMs: number;
  readonly firstUs: number;
  readonly secondUs: number;
  readonly warmUs: number;
  /** The median time to the first byte of streams that came together, in milliseconds. */
  readonly burstMs: number;
};
/** A process that has just become ready. */
type Fresh = Target & { readonly pid: number; readonly key: string; stop(): Promise<void> };

/**
 * Measures what requests cost a process that has just become ready, beside what they cost it later, and how long
 * streams that come together to another new one wait, beside nginx.
 */
export async function freshBench({ quick }: BenchSettings): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "svc-fresh-"));
  const several = cpus().length > 1;
  if (several) pin(process.pid, OTHERS);
  const engine = await startChild("engine", join(import.meta.dirname, "processes/engine-process.js"), [], folder);
  const { address, ssePort } = engine.ready as { readonly address: string; readonly ssePort: number };
  const repetitions = quick ? 1 : 3;
  const targets = [
    ...Object.entries(WARM_UPS).map(([name, warmUpMs]) => ({
      name,
      asked: true,
      start: () => startGateway(address, folder, warmUpMs),
    })),
    { name: "nginx", asked: false, start: () => startNginx(ssePort, folder) },
  ];
  try {
    // As images are: what V8 compiles of the gateway is there before it starts.
    await (await startGateway(address, folder, undefined)).stop();
    const rounds = await interleave(targets, repetitions, ({ asked, start }) => measure(start, asked, several));
    const rows = targets.map(({ name }): Row => {
      const values = (value: (reading: Reading) => number) =>
        rounds.flatMap((round) => round.get(name) ?? []).map(value);
      return {
        fresh: name,
        readyMs: median(values(({ readyMs }) => readyMs)),
        firstUs: median(values(({ firstUs }) => firstUs)),
        secondUs: median(values(({ secondUs }) => secondUs)),
        warmUs: median(values(({ warmUs }) => warmUs)),
        toWarm: median(values(({ firstUs, warmUs }) => firstUs / warmUs)),
        burstMs: median(values(({ burstMs }) => burstMs)),
      };
    });
    return resultOf(rows, repetitions);
  } finally {
    await engine.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

function resultOf(rows: readonly Row[], repetitions: number): BenchResult {
  return {
    title: "fresh: what a process that has just become ready does for its first callers",
    columns: [
      { key: "fresh", title: "new process" },
      { key: "readyMs", title: "ready after ms", digits: 0 },
      { key: "firstUs", title: "CPU us a request: first 0.5 s", digits: 0 },
      { key: "secondUs", title: "second 0.5 s", digits: 0 },
      { key: "warmUs", title: `after ${WARM_MS / 1_000} s`, digits: 0 },
      { key: "toWarm", title: "first to warm", digits: 2 },
      { key: "burstMs", title: `${BURST.streams} streams at once: first byte p50 ms`, digits: 0 },
    ],
    rows,
    notes: [
      `Requests of ${REQUEST_BYTES / 1_000} KB over ${CONNECTIONS} connections in a closed loop; medians of ${repetitions} interleaved rounds, a new process for each column of each.`,
    ],
  };
}

async function startGateway(address: string, folder: string, warmUpMs: number | undefined): Promise<Fresh> {
  const place = await mkdtemp(join(folder, "gateway-"));
  const settings = warmUpMs === undefined ? {} : { warmUpMs };
  const gateway = await startBenchGateway(GATEWAY_PROGRAM, place, {
    engines: [address],
    settings,
    compiled: join(folder, "compiled"),
  });
  return { name: "gateway", ...gateway, request: (directive) => requestText("chat", gateway.key, directive) };
}

async function startNginx(ssePort: number, folder: string): Promise<Fresh | undefined> {
  const { running } = await startReferences(["nginx"], { originPort: ssePort }, await mkdtemp(join(folder, "nginx-")));
  const [nginx] = running;
  return nginx && { ...nginx, key: "none", request: (directive) => requestText("chat", "none", directive) };
}

/** Measures one new process after the other: what requests cost it, where they are asked, and what a burst waits. */
async function measure(
  start: () => Promise<Fresh | undefined>,
  asked: boolean,
  several: boolean,
): Promise<Reading | undefined> {
  const requests = asked
    ? await fresh(start, several, costOfRequests)
    : { firstUs: Number.NaN, secondUs: Number.NaN, warmUs: Number.NaN };
  const beganMs = performance.now();
  const burst = await fresh(start, several, async (target) => {
    const readyMs = performance.now() - beganMs;
    const { firstByteP50Ms } = await measureWindow(target, BURST, SLICE_MS / 1_000, false);
    return { readyMs, burstMs: firstByteP50Ms };
  });
  return requests && burst && { ...requests, ...burst };
}

async function fresh<Value>(
  start: () => Promise<Fresh | undefined>,
  several: boolean,
  read: (target: Fresh) => Promise<Value>,
): Promise<Value | undefined> {
  const target = await start();
  if (!target) return undefined;
  try {
    if (several) pin(target.pid, MEASURED);
    return await read(target);
  } finally {
    await target.stop();
  }
}

async function costOfRequests(target: Fresh): Promise<Pick<Reading, "firstUs" | "secondUs" | "warmUs">> {
  const text = replyRequestText(target.key, REQUEST_BYTES, REPLY_TOKENS);
  const client = new SaturatingClient(target, text, CONNECTIONS);
  /** Returns the processor time of a request in the next `ms` milliseconds, in microseconds. */
  const slice = async (ms: number) => {
    client.start();
    const before = cpuMs(target.pid);
    await sleep(ms);
    return ((cpuMs(target.pid) - before) * 1_000) / client.read().length;
  };
  try {
    const firstUs = await slice(SLICE_MS);
    const secondUs = await slice(SLICE_MS);
    await sleep(WARM_MS);
    return { firstUs, secondUs, warmUs: await slice(SLICE_MS * WARM_SLICES) };
  } finally {
    client.close();
  }
}
