import { setPriority } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bodyFor } from "../support/http/answer-check.ts";
import { metricSum } from "../support/metric-text.ts";
import { closedLoop, type Ended, tallyOf } from "../support/processes/closed-loop.ts";
import type { HostileTally, Hostility } from "../support/processes/hostile-caller.ts";
import { createKey } from "../support/processes/key-command.ts";
import { memoryOf } from "../support/processes/processes-with.ts";
import type { Attack } from "./processes/hostile-process.ts";
import { type NodeFleet, startChild, startNodeFleet } from "./processes/programs.ts";
import { type BenchResult, cpuMs, inFolder, percentile, type Row } from "./report.ts";
import type { BenchSettings } from "./settings.ts";

const NODES = 3;
const HONEST = 20;
/** The pause of an honest caller after an answer, in milliseconds. */
const THINK_MS = 1_500;
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
const LENGTH_FACTOR = 5;
/** The time before the first measurement, in milliseconds, for JIT compilation. */
const WARM_UP_MS = 10_000;
const LONG_BODY_BYTES = 400_000;
/** Milliseconds within which memory returns to its level, under honest load: V8 returns it late. */
const SETTLE_MS = 60_000;
/** Milliseconds; the lowest memory of such a window counts, because uncollected garbage varies by ten percent. */
const MEMORY_WINDOW_MS = 30_000;
const SEED = 1;
/** Nice value of the honest callers' thread, if permitted: they stand for other machines. */
const CALLERS_PRIORITY = -10;
const MEBIBYTE = 1024 * 1024;

const MAX_P99_RATIO = 2;
const MAX_MEMORY_RATIO = 1.1;

/** Memory is in bytes, the lowest of the gateway and of each node per window; CPU use is in cores. */
type Stretch = {
  readonly ended: readonly Ended[];
  readonly peakBytes: number;
  readonly restBytes: readonly (readonly number[])[];
  readonly gatewayCores: number;
  readonly nodeCores: number;
  readonly attackerCores: number;
  readonly tally: HostileTally;
};
type RunningAttack = {
  readonly cpuMs: () => number;
  readonly stop: () => Promise<HostileTally>;
};

export function hostileBench(settings: BenchSettings): Promise<BenchResult> {
  return inFolder("hostile", (folder) => measured(settings, folder));
}

async function measured({ seconds, quick }: BenchSettings, folder: string): Promise<BenchResult> {
  const lengthMs = seconds * LENGTH_FACTOR * 1_000;
  const hostility = quick ? { ...HOSTILITY, bodies: 8, connections: 200 } : HOSTILITY;
  const fleet = await startNodeFleet(NODES, folder);
  try {
    const keys = await honestKeys(join(folder, "gateway", "keys", "keys.json"));
    await stretch(fleet, keys, WARM_UP_MS, undefined, folder);
    await startThreads(fleet, keys);
    const quiet = await stretch(fleet, keys, lengthMs, undefined, folder);
    const attacked = await stretch(fleet, keys, lengthMs, hostility, folder);
    const after = await stretch(fleet, keys, SETTLE_MS, undefined, folder);
    const ejections = await statOf(fleet, "svc_cluster_outlier_ejections_total");
    const rows = [rowOf("quiet", quiet, quiet), rowOf("attacked", attacked, quiet)];
    const memory = after.restBytes.map(
      (rests, at) => (rests.at(-1) ?? Number.NaN) / Math.max(...(quiet.restBytes[at] ?? [])),
    );
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
        { key: "gatewayCores", title: "cores: gateway", digits: 2 },
        { key: "nodeCores", title: "nodes", digits: 2 },
        { key: "attackerCores", title: "attacker", digits: 2 },
      ],
      rows,
      notes: [
        ...verdicts(rows[1] ?? {}, ejections, memory),
        `Each stretch had ${lengthMs / 1_000} s; --seconds 60 makes it the five minutes that are promised.`,
        `Honest answers: ${JSON.stringify(tallyOf(attacked.ended))}.`,
        `The hostile key's own: ${JSON.stringify(attacked.tally)}.`,
      ],
    };
  } finally {
    await fleet.stop();
  }
}

function verdicts(attacked: Row, ejections: number, memory: readonly number[]): readonly string[] {
  const line = (isKept: boolean, promise: string, measured: string) =>
    `${isKept ? "Kept" : "NOT KEPT"}: ${promise}: ${measured}.`;
  const whole = Number(attacked.whole);
  const ratio = Number(attacked.p99Ratio);
  return [
    line(whole === 100, "all honest answers whole", `${whole.toFixed(2)} %`),
    line(ratio <= MAX_P99_RATIO, `p99 of the first token at most ${MAX_P99_RATIO} times quiet`, ratio.toFixed(2)),
    line(ejections === 0, "no node ejected", String(ejections)),
    line(
      memory.every((one) => one <= MAX_MEMORY_RATIO),
      `memory in the last ${MEMORY_WINDOW_MS / 1_000} of ${SETTLE_MS / 1_000} s of honest calls later at most ${MAX_MEMORY_RATIO} times the most of as long a time before, of the gateway and each node`,
      memory.map((one) => one.toFixed(2)).join(", "),
    ),
  ];
}

async function honestKeys(file: string): Promise<readonly string[]> {
  const keys: string[] = [];
  for (let index = 0; index < HONEST; index += 1)
    keys.push(await createKey(file, "--models", "all", "--name", `honest ${index}`));
  return keys;
}

async function startThreads({ gateway }: NodeFleet, keys: readonly string[]): Promise<void> {
  const path = "/v1/chat/completions";
  const body = bodyFor(path, "a".repeat(LONG_BODY_BYTES));
  const post = poster(gateway);
  await Promise.all(keys.slice(0, 2).map(async (key) => (await post(path, body, undefined, key)).text()));
}

function poster({ port, key: own }: NodeFleet["gateway"]) {
  return (path: string, body: unknown, signal?: AbortSignal, key = own) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
}

async function stretch(
  { gateway, nodePids }: NodeFleet,
  keys: readonly string[],
  lengthMs: number,
  hostility: Hostility | undefined,
  folder: string,
): Promise<Stretch> {
  const post = poster(gateway);
  const fields = (path: string) =>
    path === "/v1/responses" ? { max_output_tokens: ANSWER_TOKENS } : { max_tokens: ANSWER_TOKENS };
  const running = hostility && (await startAttack(gateway, hostility, folder));
  const nodesMs = () => nodePids.reduce((sum, pid) => sum + cpuMs(pid), 0);
  const used = () => [performance.now(), cpuMs(gateway.pid), nodesMs(), running?.cpuMs() ?? 0] as const;
  // Processes started later would inherit it.
  const hasPriority = prioritize(CALLERS_PRIORITY);
  const begin = used();
  let peakBytes = 0;
  const restBytes = [gateway.pid, ...nodePids].map((): number[] => []);
  // An incomplete last window belongs to the one before.
  const lastWindow = Math.max(0, Math.floor(lengthMs / MEMORY_WINDOW_MS) - 1);
  const watch = setInterval(() => {
    peakBytes = Math.max(peakBytes, memoryOf(gateway.pid));
    const window = Math.min(lastWindow, Math.floor((performance.now() - begin[0]) / MEMORY_WINDOW_MS));
    for (const [at, pid] of [gateway.pid, ...nodePids].entries()) {
      const rests = restBytes[at] ?? [];
      rests[window] = Math.min(rests[window] ?? Number.POSITIVE_INFINITY, memoryOf(pid));
    }
  }, 100);
  const load = closedLoop({ post }, HONEST, { keys, pauseMs: THINK_MS, fields });
  await sleep(lengthMs);
  const ended = await load.finish(load.ended.length);
  clearInterval(watch);
  const end = used();
  if (hasPriority) prioritize(0);
  const cores = (at: 1 | 2 | 3) => (end[at] - begin[at]) / (end[0] - begin[0]);
  return {
    ...{ ended, peakBytes, restBytes, gatewayCores: cores(1), nodeCores: cores(2), attackerCores: cores(3) },
    tally: (await running?.stop()) ?? {},
  };
}

function prioritize(priority: number): boolean {
  try {
    setPriority(priority);
    return true;
  } catch {
    return false;
  }
}

async function startAttack(
  { port, key }: { readonly port: number; readonly key: string },
  hostility: Hostility,
  folder: string,
): Promise<RunningAttack> {
  const task: Attack = { victim: { port, key }, hostility, seed: SEED };
  const program = join(import.meta.dirname, "processes", "hostile-process.js");
  const child = await startChild("hostile", program, [JSON.stringify(task)], folder);
  const tally = new Promise<HostileTally>((resolve) => child.process.once("message", resolve));
  return {
    cpuMs: () => cpuMs(child.pid),
    stop() {
      child.process.kill("SIGTERM");
      return tally;
    },
  };
}

function rowOf(callers: string, { ended, peakBytes, restBytes: _, ...measured }: Stretch, quiet: Stretch): Row {
  const { gatewayCores, nodeCores, attackerCores } = measured;
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
    ...{ gatewayCores, nodeCores, attackerCores },
  };
}

function firstTokenMs(ended: readonly Ended[]): readonly [number, number] {
  const times = ended.flatMap(({ firstDeltaMs }) => firstDeltaMs ?? []);
  return [percentile(times, 0.5), percentile(times, 0.99)];
}

async function statOf({ gateway }: NodeFleet, name: string): Promise<number> {
  const response = await fetch(`${String(gateway.ready.adminUrl)}/stats`);
  return metricSum(await response.text(), name, 'enforced="true"');
}
