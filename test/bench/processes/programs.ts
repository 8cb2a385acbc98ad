import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { Child } from "../../../deploy/local/child.ts";
import { CATALOG } from "../../../gateway/catalog.ts";
import { IMAGE_ENV } from "../../support/processes/image-env.ts";
import { createKey } from "../../support/processes/key-command.ts";

export type RunningChild = Awaited<ReturnType<typeof startChild>>;

/** Starts a built program; resolves when it prints `ready {…}`. Its standard error goes to a file in `folder`. */
export async function startChild(name: string, program: string, args: readonly string[], folder: string) {
  const log = join(folder, `${name}.log`);
  const errors = openSync(log, "a");
  // The IPC channel closes with the bench, so that a killed bench leaves no process behind.
  const spawned = spawn(process.execPath, [program, ...args], {
    stdio: ["ignore", "pipe", errors, "ipc"],
    env: { ...IMAGE_ENV, ...process.env },
  });
  closeSync(errors);
  const child = new Child(name, spawned);
  try {
    const ready = await child.ready;
    return {
      process: spawned,
      pid: spawned.pid ?? 0,
      ready,
      async stop(): Promise<void> {
        child.signal("SIGTERM");
        await child.ended;
      },
    };
  } catch (error) {
    throw new Error(`the ${name} did not start: ${readFileSync(log, "utf8").slice(-2_000)}`, { cause: error });
  }
}

const GATEWAY_PROGRAM = join(import.meta.dirname, "../../../gateway/main.js");

const READY_MS = 20_000;

export type BenchGateway = RunningChild & {
  readonly port: number;
  readonly key: string;
};

type BenchGatewayOptions = {
  readonly engines: readonly string[];
  readonly settings?: object;
  readonly readyTimeoutMs?: number;
};

/** Starts the gateway as deployed. Resolves when an engine is healthy. */
export async function startBenchGateway(
  folder: string,
  { engines, settings = {}, readyTimeoutMs = READY_MS }: BenchGatewayOptions,
): Promise<BenchGateway> {
  await mkdir(folder, { recursive: true });
  // The gateway watches the folder of its keys: the log must not be written there.
  const keyFile = join(folder, "keys", "keys.json");
  const key = await createKey(keyFile);
  const configFile = join(folder, "gateway.yaml");
  const endpoints = engines.map((address) => ({ address }));
  const config = {
    listen: { port: 0 },
    admin: { port: 0 },
    keys: { file: keyFile },
    clusters: CATALOG.map(({ id }) => ({ model: id, endpoints })),
    drainGraceMs: 0,
    drainTimeoutMs: 1_000,
    ...settings,
  };
  await writeFile(configFile, stringify(config, { aliasDuplicateObjects: false }));
  const child = await startChild("gateway", GATEWAY_PROGRAM, ["--config", configFile], folder);
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

const ENGINE_PROGRAM = join(import.meta.dirname, "../../support/engine/main.js");

export const DEMONSTRATION = {
  kind: "llama",
  modelPath: join(import.meta.dirname, "../../../../engine/demo-model/demo.gguf"),
  contextTokens: 4_096,
  slots: 8,
  threads: 1,
};

export type NodeFleet = Awaited<ReturnType<typeof startNodeFleet>>;

/** Starts nodes with the demonstration model, and a gateway in front of them. */
export async function startNodeFleet(nodes: number, folder: string) {
  const names = Array.from({ length: nodes }, (_, index) => `node-${index}`);
  const engines = await Promise.all(names.map((name) => startNode(name, DEMONSTRATION, folder)));
  const addresses = engines.map(({ ready }) => String(ready.address));
  const gateway = await startBenchGateway(join(folder, "gateway"), { engines: addresses });
  return {
    gateway,
    nodePids: engines.map(({ pid }) => pid),
    async stop(): Promise<void> {
      for (const child of [gateway, ...engines]) await child.stop();
    },
  };
}

export async function startNode(nodeId: string, backend: object, folder: string): Promise<RunningChild> {
  const file = join(folder, `${nodeId}.yaml`);
  await writeFile(
    file,
    stringify({ nodeId, models: ["svc-qwen"], listen: { port: 0 }, metrics: { port: 0 }, backend }),
  );
  return startChild(nodeId, ENGINE_PROGRAM, ["--config", file], folder);
}
