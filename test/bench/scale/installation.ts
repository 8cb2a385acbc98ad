import { join } from "node:path";
import { metricSum } from "../../support/metric-text.ts";
import { RedisProcess } from "../../support/redis/redis-process.ts";
import { type RunningChild, startChild } from "../processes/child-process.ts";
import { type BenchGateway, GATEWAY_PROGRAM, startBenchGateway } from "../processes/gateway-process.ts";
import { cpuMs } from "../report/cpu.ts";
import { endpointHost, type ScaleSettings } from "./scale-settings.ts";
import { storeKeys } from "./stored-keys.ts";

const ENGINE_PROGRAM = join(import.meta.dirname, "../processes/engine-process.js");
/**
 * How gateways check endpoints: every 5 s, and with patience, as one process answers for all of them. At the start it is
 * spoken to by thousands of connections at once; gateways that did not wait would ask again, and it would never be done.
 */
const HEALTH_CHECKS = { intervalMs: 5_000, unhealthyIntervalMs: 5_000, timeoutMs: 20_000 };
/** The longest time that a gateway may take until it has all keys and an endpoint, on a busy machine, in milliseconds. */
const READY_TIMEOUT_MS = 300_000;

/** What a stretch of time cost, in shares of one core, in bytes and in events a second. */
export type Cost = {
  /** The mean processor time of a gateway, in percent of a core. */
  readonly gatewayCpu: number;
  /** The largest delay of a gateway's event loop that 99 of 100 turns stay below, in milliseconds. */
  readonly loopP99Ms: number;
  /** The largest resident memory of a gateway, in MiB. */
  readonly gatewayMiB: number;
  /** The processor time of the store, in percent of a core. */
  readonly storeCpu: number;
  /** The commands that the store was sent, a second. */
  readonly storeCommands: number;
  /** The processor time of the process that plays all endpoints, in percent of a core. */
  readonly endpointsCpu: number;
};

/** An installation on this machine: gateways that share a store, in front of endpoints that one process plays. */
export class Installation {
  readonly gateways: readonly BenchGateway[];
  /** Keys of the store, one for each stream. */
  readonly keys: readonly string[];
  /** How long it took to write the keys, in milliseconds. */
  readonly keysWrittenMs: number;
  /** How long each gateway took to start: its processes', all keys', and until an endpoint was healthy, in milliseconds. */
  readonly startedMs: readonly number[];
  readonly store: RedisProcess;
  readonly pepperFile: string;
  readonly #engine: RunningChild;

  private constructor(parts: {
    readonly gateways: readonly BenchGateway[];
    readonly keys: readonly string[];
    readonly keysWrittenMs: number;
    readonly startedMs: readonly number[];
    readonly store: RedisProcess;
    readonly pepperFile: string;
    readonly engine: RunningChild;
  }) {
    this.gateways = parts.gateways;
    this.keys = parts.keys;
    this.keysWrittenMs = parts.keysWrittenMs;
    this.startedMs = parts.startedMs;
    this.store = parts.store;
    this.pepperFile = parts.pepperFile;
    this.#engine = parts.engine;
  }

  /** Starts all of it in `folder`. The gateways start at the same time, as after a failure of power. */
  static async start(scale: ScaleSettings, folder: string): Promise<Installation> {
    const store = await RedisProcess.start("--appendonly", "yes", "--appendfsync", "everysec");
    const pepperFile = join(folder, "pepper");
    const { keys, tookMs } = await storeKeys(store.address, pepperFile, { count: scale.keys, shown: scale.streams });
    // One server that listens on all addresses of this machine has as many endpoints as these.
    const engine = await startChild("endpoints", ENGINE_PROGRAM, ["0.0.0.0"], folder);
    const port = String(engine.ready.address).split(":").at(-1);
    const endpoints = Array.from({ length: scale.endpoints }, (_, at) => ({ address: `${endpointHost(at)}:${port}` }));
    const most = { maxRequests: 1_000_000, maxPendingRequests: 100_000 };
    const cluster = { model: "svc-qwen", endpoints, healthChecks: HEALTH_CHECKS, circuitBreakers: most };
    const settings = {
      clusters: [cluster],
      keys: { redis: { pepperFile } },
      state: { redis: { addresses: [store.address] } },
    };
    const started = await Promise.all(
      Array.from({ length: scale.gateways }, async (_, at) => {
        const beganMs = performance.now();
        const options = { engines: [], settings, readyTimeoutMs: READY_TIMEOUT_MS };
        const gateway = await startBenchGateway(GATEWAY_PROGRAM, join(folder, `gateway-${at}`), options);
        return { gateway, tookMs: performance.now() - beganMs };
      }),
    );
    const gateways = started.map(({ gateway }) => gateway);
    const startedMs = started.map((each) => each.tookMs);
    return new Installation({ gateways, keys, keysWrittenMs: tookMs, startedMs, store, pepperFile, engine });
  }

  /** Resolves to how many endpoints the gateways find healthy, the fewest of all gateways. */
  async healthy(): Promise<number> {
    const pages = await Promise.all(this.gateways.map((gateway) => statsOf(gateway)));
    return Math.min(...pages.map((page) => metricSum(page, "svc_cluster_membership_healthy")));
  }

  /** Resolves to what the time cost that `wait` takes. */
  async cost(wait: () => Promise<unknown>): Promise<Cost> {
    // The event loop's delays count from the scrape before.
    for (const gateway of this.gateways) await statsOf(gateway);
    const before = await this.#used();
    await wait();
    const after = await this.#used();
    const pages = await Promise.all(this.gateways.map((gateway) => statsOf(gateway)));
    const percent = (beforeMs: number, afterMs: number) => (100 * (afterMs - beforeMs)) / (after.atMs - before.atMs);
    return {
      gatewayCpu: percent(before.gatewaysMs, after.gatewaysMs) / this.gateways.length,
      loopP99Ms: 1_000 * Math.max(...pages.map((page) => metricSum(page, "nodejs_eventloop_lag_p99_seconds"))),
      gatewayMiB: Math.max(...pages.map((page) => metricSum(page, "process_resident_memory_bytes"))) / 2 ** 20,
      storeCpu: percent(before.storeMs, after.storeMs),
      storeCommands: (1_000 * (after.commands - before.commands)) / (after.atMs - before.atMs),
      endpointsCpu: percent(before.endpointsMs, after.endpointsMs),
    };
  }

  /** Resolves to the memory of the store, in MiB. */
  async storeMiB(): Promise<number> {
    return infoNumber(String(await this.store.ask("INFO", "memory")), "used_memory") / 2 ** 20;
  }

  /** Ends all of it. */
  async stop(): Promise<void> {
    await Promise.all([...this.gateways, this.#engine].map((child) => child.stop()));
    await this.store.end();
  }

  async #used() {
    const info = String(await this.store.ask("INFO", "everything"));
    return {
      atMs: performance.now(),
      gatewaysMs: this.gateways.reduce((sum, { pid }) => sum + cpuMs(pid), 0),
      endpointsMs: cpuMs(this.#engine.pid),
      storeMs: 1_000 * (infoNumber(info, "used_cpu_sys") + infoNumber(info, "used_cpu_user")),
      commands: infoNumber(info, "total_commands_processed"),
    };
  }
}

async function statsOf({ ready }: BenchGateway): Promise<string> {
  return (await fetch(`${String(ready.adminUrl)}/stats`)).text();
}

function infoNumber(info: string, name: string): number {
  return Number(new RegExp(`^${name}:(.*)$`, "m").exec(info)?.[1] ?? Number.NaN);
}
