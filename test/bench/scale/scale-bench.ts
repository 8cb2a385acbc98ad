import { setTimeout as sleep } from "node:timers/promises";
import { HAS_REDIS, NO_REDIS } from "../../support/redis/redis-process.ts";
import { LoadClient } from "../load.ts";
import { ENDLESS, requestText } from "../processes/requests.ts";
import { type BenchResult, inFolder, percentile, type Row } from "../report.ts";
import type { BenchSettings } from "../settings.ts";
import { type Cost, type Installation, startInstallation, storeKeys } from "./installation.ts";

const LENGTH_FACTOR = 4;
/** The time limit for a state of the installation, in milliseconds: a busy machine takes minutes. */
const PATIENCE_MS = 600_000;
const PROGRESS_MS = 5_000;

export async function scaleBench({ scale, seconds }: BenchSettings): Promise<BenchResult> {
  const { endpoints, keys, streams, gateways } = scale;
  const result = {
    title: `scale: ${gateways} gateways on one store, ${endpoints} endpoints, ${keys} keys, ${streams} streams`,
    columns: [
      { key: "state", title: "while" },
      { key: "gatewayCpu", title: "gateway CPU %" },
      { key: "loopP99Ms", title: "loop late ms (p99)" },
      { key: "gatewayMiB", title: "gateway MiB", digits: 0 },
      { key: "storeCpu", title: "store CPU %" },
      { key: "storeCommands", title: "commands/s", digits: 0 },
      { key: "endpointsCpu", title: "endpoints CPU %" },
    ],
  };
  if (!HAS_REDIS) return { ...result, rows: [], notes: [`Not measured: ${NO_REDIS}.`] };
  progress(`starting: ${keys} keys are written, then ${gateways} gateways read them`);
  return inFolder("scale", async (folder) => {
    const installation = await startInstallation(scale, folder);
    const lengthMs = 1_000 * seconds * LENGTH_FACTOR;
    return measure(installation, endpoints, lengthMs)
      .then((measured) => ({ ...result, ...measured }))
      .finally(() => installation.stop());
  });
}

async function measure(installation: Installation, endpoints: number, lengthMs: number) {
  const { gateways, keys, keysWrittenMs, startedMs } = installation;
  let healthy = 0;
  let saidMs = performance.now();
  const allHealthyMs = await timeOf(async () => {
    healthy = await installation.healthy();
    if (performance.now() - saidMs > PROGRESS_MS) {
      saidMs = performance.now();
      progress(`${healthy} of ${endpoints} endpoints are healthy to all gateways`);
    }
    return healthy === endpoints;
  });
  progress("measuring while all is idle");
  const idle = await installation.cost(() => sleep(lengthMs));
  progress(`opening ${keys.length} streams`);
  const openedMs = performance.now();
  const clients = await Promise.all(gateways.map((gateway, at) => openStreams(gateway, at, gateways.length, keys)));
  const opened = performance.now() - openedMs;
  try {
    progress("measuring while all streams run");
    for (const client of clients) client.start();
    const streaming = await installation.cost(() => sleep(lengthMs));
    const read = clients.map((client) => client.read());
    const delaysMs = read.flatMap((each) => each.delaysMs);
    const events = read.reduce((sum, each) => sum + each.events, 0);
    const knownMs = await changeKnownMs(installation);
    const figure = (value: number, digits = 0) => value.toFixed(digits);
    return {
      rows: [rowOf("all is idle", idle), rowOf("all streams run", streaming)],
      notes: [
        `Writing the keys took ${figure(keysWrittenMs / 1_000, 1)} s; the store has ${figure(await installation.storeMiB())} MiB.`,
        `All gateways started at once, and had all keys and an endpoint after ${figure(Math.max(...startedMs) / 1_000, 1)} s; ${healthy} of ${endpoints} endpoints were healthy to all ${figure(allHealthyMs / 1_000, 1)} s later.`,
        `${keys.length} streams were opened in ${figure(opened / 1_000, 1)} s; ${figure((1_000 * events) / lengthMs)} deltas a second came, ${figure(percentile(delaysMs, 0.5), 1)} ms after the engine wrote them (p50), ${figure(percentile(delaysMs, 0.99), 1)} ms (p99).`,
        `A new key was known to all gateways ${figure(knownMs)} ms after it was asked for.`,
        "CPU is in percent of one core, that of a gateway the mean of all; the client and all else share this machine.",
      ],
    };
  } finally {
    for (const client of clients) client.close();
  }
}

function progress(what: string): void {
  process.stderr.write(`scale: ${what}\n`);
}

function rowOf(state: string, cost: Cost): Row {
  return { state, ...cost };
}

function openStreams(
  { port }: { readonly port: number },
  at: number,
  gateways: number,
  keys: readonly string[],
): Promise<LoadClient> {
  const directive = { events: ENDLESS, eventsPerSecond: 1, eventsPerWrite: 1 };
  const own = keys.filter((_, number) => number % gateways === at);
  return LoadClient.open(
    { name: `gateway ${at}`, port },
    own.map((key) => requestText("chat", key, directive)),
  );
}

async function changeKnownMs({ gateways, store, pepperFile }: Installation): Promise<number> {
  const beganMs = performance.now();
  const { keys } = await storeKeys(store.address, pepperFile, { count: 1, shown: 1 });
  const headers = { authorization: `Bearer ${keys[0]}` };
  const known = async (port: number) => (await fetch(`http://127.0.0.1:${port}/v1/models`, { headers })).status === 200;
  await Promise.all(gateways.map(({ port }) => timeOf(() => known(port))));
  return performance.now() - beganMs;
}

async function timeOf(condition: () => Promise<boolean>): Promise<number> {
  const beganMs = performance.now();
  while (!(await condition())) {
    if (performance.now() - beganMs > PATIENCE_MS) break;
    await sleep(100);
  }
  return performance.now() - beganMs;
}
