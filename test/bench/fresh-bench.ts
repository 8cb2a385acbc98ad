import { mkdtemp, rm } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SaturatingClient } from "./load/saturating-client.ts";
import { type RunningChild, startChild } from "./processes/child-process.ts";
import { GATEWAY_PROGRAM, startBenchGateway } from "./processes/gateway-process.ts";
import { replyRequestText } from "./processes/request-text.ts";
import { pin } from "./references/reference.ts";
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

type Reading = {
  readonly readyMs: number;
  readonly firstUs: number;
  readonly secondUs: number;
  readonly warmUs: number;
};

/** Measures what requests cost a process that has just become ready, beside what they cost it later. */
export async function freshBench({ quick }: BenchSettings): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "svc-fresh-"));
  const several = cpus().length > 1;
  if (several) pin(process.pid, OTHERS);
  const engine = await startChild("engine", join(import.meta.dirname, "processes/engine-process.js"), [], folder);
  const repetitions = quick ? 1 : 3;
  try {
    const targets = Object.entries(WARM_UPS).map(([name, warmUpMs]) => ({ name, warmUpMs }));
    const rounds = await interleave(targets, repetitions, ({ warmUpMs }) => measure(engine, folder, warmUpMs, several));
    const rows = targets.map(({ name }): Row => {
      const values = (value: (reading: Reading) => number) =>
        rounds.flatMap((round) => {
          const reading = round.get(name);
          return reading ? [value(reading)] : [];
        });
      return {
        gateway: name,
        readyMs: median(values(({ readyMs }) => readyMs)),
        firstUs: median(values(({ firstUs }) => firstUs)),
        secondUs: median(values(({ secondUs }) => secondUs)),
        warmUs: median(values(({ warmUs }) => warmUs)),
        toWarm: median(values(({ firstUs, warmUs }) => firstUs / warmUs)),
      };
    });
    return {
      title: `fresh: requests of ${REQUEST_BYTES / 1_000} KB to a gateway that has just become ready`,
      columns: [
        { key: "gateway", title: "gateway" },
        { key: "readyMs", title: "ready after ms", digits: 0 },
        { key: "firstUs", title: "CPU us each: first 0.5 s", digits: 0 },
        { key: "secondUs", title: "second 0.5 s", digits: 0 },
        { key: "warmUs", title: `after ${WARM_MS / 1_000} s`, digits: 0 },
        { key: "toWarm", title: "first to warm", digits: 2 },
      ],
      rows,
      notes: [
        `Medians of ${repetitions} interleaved rounds, ${CONNECTIONS} connections in a closed loop, a new process each time.`,
      ],
    };
  } finally {
    await engine.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function measure(
  engine: RunningChild,
  folder: string,
  warmUpMs: number | undefined,
  several: boolean,
): Promise<Reading> {
  const place = await mkdtemp(join(folder, "gateway-"));
  const beganMs = performance.now();
  const { address } = engine.ready as { readonly address: string };
  const settings = warmUpMs === undefined ? {} : { warmUpMs };
  const gateway = await startBenchGateway(GATEWAY_PROGRAM, place, { engines: [address], settings });
  const readyMs = performance.now() - beganMs;
  if (several) pin(gateway.pid, MEASURED);
  const text = replyRequestText(gateway.key, REQUEST_BYTES, REPLY_TOKENS);
  const client = new SaturatingClient({ name: "gateway", ...gateway, request: () => text }, text, CONNECTIONS);
  /** Returns the processor time of a request in the next `ms` milliseconds, in microseconds. */
  const slice = async (ms: number) => {
    client.start();
    const before = cpuMs(gateway.pid);
    await sleep(ms);
    return ((cpuMs(gateway.pid) - before) * 1_000) / client.read().length;
  };
  try {
    const firstUs = await slice(SLICE_MS);
    const secondUs = await slice(SLICE_MS);
    await sleep(WARM_MS);
    return { readyMs, firstUs, secondUs, warmUs: await slice(SLICE_MS * WARM_SLICES) };
  } finally {
    client.close();
    await gateway.stop();
  }
}
