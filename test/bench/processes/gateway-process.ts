import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { CATALOG } from "../../../gateway/catalog.ts";
import { issueLocalKey } from "../../../gateway/keys/local-key.ts";
import { type NodeOptions, type RunningChild, startChild } from "./child-process.ts";

export const GATEWAY_PROGRAM = join(import.meta.dirname, "../../../gateway/main.js");

/** The default time limit for a healthy engine, in milliseconds. */
const READY_MS = 20_000;

export type BenchGateway = RunningChild & {
  readonly port: number;
  /** An API key without limits, for all models. */
  readonly key: string;
};

export type BenchGatewayOptions = NodeOptions & {
  /** The addresses of its engine nodes, each `host:port`. */
  readonly engines: readonly string[];
  /** The settings of every cluster beside endpoints. Default: the gateway's own. */
  readonly cluster?: object;
  /** Further settings of the gateway. Default: its own. */
  readonly settings?: object;
  /** The time limit for a healthy engine, in milliseconds. Default: 20,000. */
  readonly readyTimeoutMs?: number;
};

/**
 * Starts the gateway as deployed, with its defaults except for the cache header, in a separate process. Resolves when
 * an engine is healthy. `program` is the path of its built `main.js`.
 */
export async function startBenchGateway(
  program: string,
  folder: string,
  { engines, cluster = {}, settings = {}, readyTimeoutMs = READY_MS, ...node }: BenchGatewayOptions,
): Promise<BenchGateway> {
  await mkdir(folder, { recursive: true });
  // The gateway watches the folder of its keys: the log must not be written there.
  const keyFile = join(folder, "keys", "keys.json");
  const never = new AbortController().signal;
  const key = await issueLocalKey({ file: keyFile, existing: undefined, nowMs: Date.now() }, never);
  const configFile = join(folder, "gateway.yaml");
  const endpoints = engines.map((address) => ({ address }));
  const config = {
    listen: { port: 0 },
    admin: { port: 0 },
    keys: { file: keyFile },
    clusters: CATALOG.map(({ id }) => ({ model: id, endpoints, ...cluster })),
    cacheHeader: true,
    drainGraceMs: 0,
    drainTimeoutMs: 1_000,
    ...settings,
  };
  await writeFile(configFile, stringify(config, { aliasDuplicateObjects: false }));
  const child = await startChild("gateway", program, ["--config", configFile], folder, node);
  const { baseUrl, adminUrl } = child.ready as { baseUrl: string; adminUrl: string };
  await untilReady(`${adminUrl}/readyz`, readyTimeoutMs);
  return { ...child, port: Number(new URL(baseUrl).port), key };
}

async function untilReady(url: string, timeoutMs: number): Promise<void> {
  const deadline = AbortSignal.timeout(timeoutMs);
  for (;;) {
    const response = await fetch(url, { signal: deadline });
    await response.text();
    if (response.ok) return;
    await sleep(20, undefined, { signal: deadline });
  }
}
