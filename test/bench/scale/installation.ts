import { join } from "node:path";
import { createKey, type KeyRequest } from "../../../gateway/keys/key-admin.ts";
import { openRedisKeyVault } from "../../../gateway/keys/redis/redis-key-vault.ts";
import { stateSchema } from "../../../gateway/state/state-settings.ts";
import { metricSum } from "../../support/metric-text.ts";
import { RedisProcess } from "../../support/redis/redis-process.ts";
import { type BenchGateway, startBenchGateway, startChild } from "../processes/programs.ts";
import { cpuMs } from "../report.ts";
import { endpointHost, type ScaleSettings } from "../settings.ts";

/** The properties of the bench's keys: limits are counted in the store, and refuse nothing. */
const REQUEST: Omit<KeyRequest, "name"> = {
  limits: { rpm: 100_000, itpm: 1_000_000_000, otpm: 1_000_000_000, concurrency: 1_000 },
  quota: { tokensPerDay: 1_000_000_000 },
};

function vaultAt(address: string, pepperFile: string) {
  const { redis } = stateSchema.parse({ redis: { url: `redis://${address}` } });
  if (!redis) throw new Error("the store has no settings");
  return openRedisKeyVault(redis, pepperFile, () => {});
}

/** Adds keys to the store. Resolves to the texts of the first `shown` of them, and to the duration. */
export async function storeKeys(
  address: string,
  pepperFile: string,
  { count, shown }: { readonly count: number; readonly shown: number },
): Promise<{ readonly keys: readonly string[]; readonly tookMs: number }> {
  const vault = await vaultAt(address, pepperFile);
  const beganMs = performance.now();
  const keys = await vault.update(true, [], (set, pepper) => {
    const nowMs = Date.now();
    const made = Array.from({ length: count }, (_, at) => {
      // An empty set: copying all others for each key would take quadratic time.
      return createKey({ ...set, keys: [] }, { ...REQUEST, name: `key ${at}` }, pepper, nowMs).value;
    });
    return {
      set: { ...set, revision: set.revision + 1, keys: [...set.keys, ...made.map(({ record }) => record)] },
      value: made.slice(0, shown).map(({ key }) => key),
    };
  });
  vault.close();
  return { keys, tookMs: performance.now() - beganMs };
}

const ENGINE_PROGRAM = join(import.meta.dirname, "../processes/engine-process.js");
/** With a long timeout: one process answers for all endpoints, and gateways that timed out would retry forever. */
const HEALTH_CHECKS = { intervalMs: 5_000, timeoutMs: 20_000 };
/** The time limit for a gateway to load all keys and have an endpoint, on a busy machine, in milliseconds. */
const READY_TIMEOUT_MS = 300_000;

export type Cost = {
  /** The mean CPU time of a gateway, in percent of a core. */
  readonly gatewayCpu: number;
  /** The largest 99th percentile of a gateway's event-loop delay, in milliseconds. */
  readonly loopP99Ms: number;
  readonly gatewayMiB: number;
  /** The CPU time of the store, in percent of a core. */
  readonly storeCpu: number;
  readonly storeCommands: number;
  /** The CPU time of the process that serves all endpoints, in percent of a core. */
  readonly endpointsCpu: number;
};

export type Installation = Awaited<ReturnType<typeof startInstallation>>;

/** Starts gateways that share a store, in front of endpoints served by one process. */
export async function startInstallation(scale: ScaleSettings, folder: string) {
  const store = await RedisProcess.start("--appendonly", "yes", "--appendfsync", "everysec");
  const pepperFile = join(folder, "pepper");
  const { keys, tookMs } = await storeKeys(store.address, pepperFile, { count: scale.keys, shown: scale.streams });
  // One server that listens on all addresses of this machine serves as many endpoints.
  const engine = await startChild("endpoints", ENGINE_PROGRAM, ["0.0.0.0"], folder);
  const port = String(engine.ready.address).split(":").at(-1);
  const endpoints = Array.from({ length: scale.endpoints }, (_, at) => ({ address: `${endpointHost(at)}:${port}` }));
  const most = { maxPendingRequests: 100_000 };
  const cluster = { model: "svc-qwen", endpoints, healthChecks: HEALTH_CHECKS, circuitBreakers: most };
  const settings = {
    clusters: [cluster],
    keys: { redis: { pepperFile } },
    state: { redis: { url: `redis://${store.address}` } },
  };
  const started = await Promise.all(
    Array.from({ length: scale.gateways }, async (_, at) => {
      const beganMs = performance.now();
      const options = { engines: [], settings, readyTimeoutMs: READY_TIMEOUT_MS };
      const gateway = await startBenchGateway(join(folder, `gateway-${at}`), options);
      return { gateway, tookMs: performance.now() - beganMs };
    }),
  );
  const gateways = started.map(({ gateway }) => gateway);
  const pages = () => Promise.all(gateways.map((gateway) => statsOf(gateway)));
  const used = async () => {
    const info = String(await store.ask("INFO", "everything"));
    return {
      atMs: performance.now(),
      gatewaysMs: gateways.reduce((sum, { pid }) => sum + cpuMs(pid), 0),
      endpointsMs: cpuMs(engine.pid),
      storeMs: 1_000 * (infoNumber(info, "used_cpu_sys") + infoNumber(info, "used_cpu_user")),
      commands: infoNumber(info, "total_commands_processed"),
    };
  };
  return {
    ...{ gateways, keys, store, pepperFile },
    keysWrittenMs: tookMs,
    /** The start time of each gateway in milliseconds, until its keys are loaded and an endpoint is healthy. */
    startedMs: started.map((each) => each.tookMs),
    healthy: async () => Math.min(...(await pages()).map((page) => metricSum(page, "svc_cluster_membership_healthy"))),
    async cost(wait: () => Promise<unknown>): Promise<Cost> {
      // The event-loop delays count from the last scrape.
      await pages();
      const before = await used();
      await wait();
      const after = await used();
      const texts = await pages();
      const percent = (beforeMs: number, afterMs: number) => (100 * (afterMs - beforeMs)) / (after.atMs - before.atMs);
      return {
        gatewayCpu: percent(before.gatewaysMs, after.gatewaysMs) / gateways.length,
        loopP99Ms: 1_000 * Math.max(...texts.map((page) => metricSum(page, "nodejs_eventloop_lag_p99_seconds"))),
        gatewayMiB: Math.max(...texts.map((page) => metricSum(page, "process_resident_memory_bytes"))) / 2 ** 20,
        storeCpu: percent(before.storeMs, after.storeMs),
        storeCommands: (1_000 * (after.commands - before.commands)) / (after.atMs - before.atMs),
        endpointsCpu: percent(before.endpointsMs, after.endpointsMs),
      };
    },
    storeMiB: async () => infoNumber(String(await store.ask("INFO", "memory")), "used_memory") / 2 ** 20,
    async stop(): Promise<void> {
      await Promise.all([...gateways, engine].map((child) => child.stop()));
      await store.end();
    },
  };
}

async function statsOf({ ready }: BenchGateway): Promise<string> {
  return (await fetch(`${String(ready.adminUrl)}/stats`)).text();
}

function infoNumber(info: string, name: string): number {
  return Number(new RegExp(`^${name}:(.*)$`, "m").exec(info)?.[1] ?? Number.NaN);
}
