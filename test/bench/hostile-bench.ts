import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { metricSum } from "../support/metric-text.ts";
import { closedLoop, type Ended, tallyOf } from "../support/processes/closed-loop.ts";
import type { HostileTally, Hostility } from "../support/processes/hostile-caller.ts";
import { createKey } from "../support/processes/key-command.ts";
import { startChild } from "./processes/child-process.ts";
import type { Attack } from "./processes/hostile-process.ts";
import { DEMONSTRATION, type NodeFleet, startNodeFleet } from "./processes/node-fleet.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { percentile } from "./report/percentile.ts";
import type { BenchSettings } from "./settings.ts";

const NODES = 3;
const HONEST = 20;
/** The time that an honest caller thinks after an answer, in milliseconds. */
const THINK_MS = 1_500;
/** The tokens of an honest answer. */
const ANSWER_TOKENS = 24;
const HOSTILITY: Hostility = {
  schemas: 16,
  bodies: 30,
  bodyBytes: 33_000_000,
  prompts: 6,
  promptMessages: 30_000,
  connections: 1_000,
  leavers: 16,
};
/** The tail of the times to the first token shows only in a long stretch. */
const LENGTH_FACTOR = 5;
/** The time before the first stretch, in milliseconds, in which the code gets hot. */
const WARM_UP_MS = 10_000;
/** The time after the attack, in milliseconds, after which memory should be what it was. */
const SETTLE_MS = 20_000;
const SEED = 1;
const MEBIBYTE = 1024 * 1024;

/** One stretch: what honest callers got, and the memory of the gateway at its end, in bytes. */
type Stretch = { readonly ended: readonly Ended[]; readonly peakBytes: number; readonly tally: HostileTally };

/** Lets one key do all it can to hold the service, and measures what honest callers beside it get. */
export async function hostileBench({ seconds, quick }: BenchSettings): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "svc-bench-hostile-"));
  const lengthMs = seconds * LENGTH_FACTOR * 1_000;
  const hostility = quick ? { ...HOSTILITY, bodies: 8, connections: 200 } : HOSTILITY;
  const fleet = await startNodeFleet({ nodes: NODES, backend: DEMONSTRATION }, folder);
  try {
    const keys = await honestKeys(join(folder, "gateway", "keys", "keys.json"));
    await stretch(fleet, keys, WARM_UP_MS, undefined, folder);
    const quiet = await stretch(fleet, keys, lengthMs, undefined, folder);
    const before = memoryOf(fleet);
    const attacked = await stretch(fleet, keys, lengthMs, hostility, folder);
    await sleep(SETTLE_MS);
    const after = memoryOf(fleet);
    const ejections = await statOf(fleet, "svc_cluster_outlier_ejections_total");
    return {
      title: `hostile: ${HONEST} honest callers beside one hostile key, ${NODES} nodes with the demonstration model`,
      columns: [
        { key: "callers", title: "callers" },
        { key: "p99Ratio", title: "p99 to quiet", digits: 2 },
        { key: "p50Ratio", title: "p50 to quiet", digits: 2 },
        { key: "whole", title: "% whole", digits: 2 },
        { key: "requests", title: "requests", digits: 0 },
        { key: "p50Ms", title: "first token p50 ms", digits: 0 },
        { key: "p99Ms", title: "p99 ms", digits: 0 },
        { key: "peakMiB", title: "gateway's peak MiB", digits: 0 },
      ],
      rows: [rowOf("quiet", quiet, quiet), rowOf("attacked", attacked, quiet)],
      notes: [
        `Ejections: ${ejections}. Honest answers: ${JSON.stringify(tallyOf(attacked.ended))}.`,
        `The hostile key's own: ${JSON.stringify(attacked.tally)}.`,
        `Memory ${SETTLE_MS / 1_000} s after the attack over before it: ${after.map((bytes, at) => (bytes / (before[at] ?? Number.NaN)).toFixed(2)).join(", ")} (gateway, nodes).`,
      ],
    };
  } finally {
    await fleet.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function honestKeys(file: string): Promise<readonly string[]> {
  const keys: string[] = [];
  for (let index = 0; index < HONEST; index += 1)
    keys.push(await createKey(file, "--models", "all", "--name", `honest ${index}`));
  return keys;
}

/** Lets the honest callers ask for so long, beside the hostile one where there is one. */
async function stretch(
  { gateway }: NodeFleet,
  keys: readonly string[],
  lengthMs: number,
  hostility: Hostility | undefined,
  folder: string,
): Promise<Stretch> {
  const post = (path: string, body: unknown, signal?: AbortSignal, key = gateway.key) =>
    fetch(`http://127.0.0.1:${gateway.port}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
  const fields = (path: string) =>
    path === "/v1/responses" ? { max_output_tokens: ANSWER_TOKENS } : { max_tokens: ANSWER_TOKENS };
  const stopAttack = hostility && (await startAttack(gateway, hostility, folder));
  let peakBytes = 0;
  const watch = setInterval(() => {
    peakBytes = Math.max(peakBytes, residentBytes(gateway.pid));
  }, 100);
  const load = closedLoop({ post }, HONEST, { keys, pauseMs: THINK_MS, fields });
  await sleep(lengthMs);
  const ended = await load.finish(load.ended.length);
  clearInterval(watch);
  return { ended, peakBytes, tally: (await stopAttack?.()) ?? {} };
}

async function startAttack(
  { port, key }: { readonly port: number; readonly key: string },
  hostility: Hostility,
  folder: string,
): Promise<() => Promise<HostileTally>> {
  const task: Attack = { victim: { port, key }, hostility, seed: SEED };
  const program = join(import.meta.dirname, "processes", "hostile-process.js");
  const child = await startChild("hostile", program, [JSON.stringify(task)], folder);
  const tally = new Promise<HostileTally>((resolve) => child.process.once("message", resolve));
  return async () => {
    child.process.kill("SIGTERM");
    return await tally;
  };
}

function rowOf(callers: string, { ended, peakBytes }: Stretch, quiet: Stretch): Row {
  const [p50Ms, p99Ms] = firstTokenMs(ended);
  const [quietP50Ms, quietP99Ms] = firstTokenMs(quiet.ended);
  return {
    callers,
    p99Ratio: p99Ms / quietP99Ms,
    p50Ratio: p50Ms / quietP50Ms,
    whole: (100 * ended.filter(({ end }) => end === "complete").length) / ended.length,
    requests: ended.length,
    p50Ms,
    p99Ms,
    peakMiB: peakBytes / MEBIBYTE,
  };
}

/** Returns the median and the 99th percentile of the times to the first token, in milliseconds. */
function firstTokenMs(ended: readonly Ended[]): readonly [number, number] {
  const times = ended.flatMap(({ firstDeltaMs }) => firstDeltaMs ?? []);
  return [percentile(times, 0.5), percentile(times, 0.99)];
}

function memoryOf({ gateway, nodePids }: NodeFleet): readonly number[] {
  return [gateway.pid, ...nodePids].map(residentBytes);
}

/** Returns the resident memory of a process in bytes; NaN where the system does not say. */
function residentBytes(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1]) * 1024;
}

async function statOf({ gateway }: NodeFleet, name: string): Promise<number> {
  const response = await fetch(`${String(gateway.ready.adminUrl)}/stats`);
  return metricSum(await response.text(), name, 'enforced="true"');
}
