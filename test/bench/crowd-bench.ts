import { mkdtemp, rm } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LoadClient } from "./load/load-client.ts";
import { startChild } from "./processes/child-process.ts";
import { ENDLESS } from "./processes/directive.ts";
import { GATEWAY_PROGRAM, startBenchGateway } from "./processes/gateway-process.ts";
import { requestText } from "./processes/request-text.ts";
import type { Target } from "./processes/targets.ts";
import { pin } from "./references/reference.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { residentMb } from "./report/cpu.ts";
import type { BenchSettings } from "./settings.ts";

/** The processor of the gateway; client and engine have another one. */
const MEASURED = 0;
const OTHERS = 1;
/** The streams that are there before those whose memory is counted: what a process needs anyway has grown by then. */
const BEFORE = 1_000;
const STREAMS = 5_000;
const HELD_MS = 60_000;
/** The streams that are opened and closed, how many of them are open at one time, and in how many rows they are opened. */
const CHURN = 100_000;
const AT_ONCE = 400;
const ROWS = 8;
/** The time without work in which memory comes to rest. */
const REST_MS = 8_000;
/** The share of the streams behind which memory is read for the first time. */
const READINGS = 4;

/** A gateway under measurement. */
type Crowded = Target & { readonly pid: number };

/**
 * Measures what thousands of streams take: the memory of each, whether all of them bring what the engine sends for a
 * minute, and what is left when very many have been opened and closed.
 */
export async function crowdBench({ quick }: BenchSettings): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "svc-crowd-"));
  const several = cpus().length > 1;
  if (several) pin(process.pid, OTHERS);
  const engine = await startChild("engine", join(import.meta.dirname, "processes/engine-process.js"), [], folder);
  const { address } = engine.ready as { readonly address: string };
  const gateway = await startBenchGateway(GATEWAY_PROGRAM, folder, { engines: [address] });
  const { pid, port, key } = gateway;
  if (several) pin(pid, MEASURED);
  const target: Crowded = { name: "gateway", pid, port, request: (directive) => requestText("chat", key, directive) };
  try {
    await openAndClose(target, AT_ONCE);
    const held = await holdMany(target, quick ? HELD_MS / 6 : HELD_MS);
    const left = await openVeryMany(target, quick ? CHURN / 10 : CHURN);
    return { ...TABLE, rows: [...held, ...left] };
  } finally {
    await gateway.stop();
    await engine.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

const TABLE = {
  title: "crowd: thousands of streams on one worker",
  columns: [
    { key: "what", title: "what" },
    { key: "value", title: "value" },
  ],
  notes: [
    "Memory is what the system holds of the gateway's process (resident). Each stream gets a delta a second; one that idles has less to do.",
    `Kilobytes of a stream: what ${STREAMS - BEFORE} more of them add to ${BEFORE}, whose process has grown already.`,
  ],
};

function askFor(target: Target, streams: number): Promise<LoadClient> {
  const request = target.request({ events: ENDLESS, eventsPerSecond: 1, eventsPerWrite: 1, phases: 64 });
  return LoadClient.open(
    target,
    Array.from({ length: streams }, () => request),
  );
}

async function holdMany(target: Crowded, heldMs: number): Promise<readonly Row[]> {
  const few = await askFor(target, BEFORE);
  await sleep(REST_MS);
  const fewMb = residentMb(target.pid);
  const more = await askFor(target, STREAMS - BEFORE);
  try {
    await sleep(REST_MS);
    const allMb = residentMb(target.pid);
    for (const client of [few, more]) client.start(false);
    const beganMs = performance.now();
    await sleep(heldMs);
    const events = few.read().events + more.read().events;
    const wanted = (STREAMS * (performance.now() - beganMs)) / 1_000;
    return [
      { what: `MB with ${BEFORE} streams`, value: fewMb },
      { what: `MB with ${STREAMS} streams`, value: allMb },
      { what: "kB of a stream", value: ((allMb - fewMb) * 1_024) / (STREAMS - BEFORE) },
      { what: `streams of ${STREAMS} that ended within ${heldMs / 1_000} s`, value: few.ended + more.ended },
      { what: "deltas delivered, of a second's each, per cent", value: (100 * events) / wanted },
    ];
  } finally {
    for (const client of [few, more]) client.close();
    await sleep(REST_MS);
  }
}

/** Opens so many streams at one time, in rows, and leaves them when each has brought its first delta. */
async function openAndClose(target: Target, streams: number): Promise<void> {
  const clients = await Promise.all(Array.from({ length: ROWS }, () => askFor(target, streams / ROWS)));
  for (const client of clients) client.close();
}

async function openVeryMany(target: Crowded, streams: number): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (let reading = 1; reading <= READINGS; reading += 1) {
    for (let opened = 0; opened < streams / READINGS; opened += AT_ONCE) await openAndClose(target, AT_ONCE);
    await sleep(REST_MS);
    rows.push({ what: `MB after ${(streams * reading) / READINGS} streams`, value: residentMb(target.pid) });
  }
  return rows;
}
