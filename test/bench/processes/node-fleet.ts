import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { metricSum } from "../../support/metric-text.ts";
import { type RunningChild, startChild } from "./child-process.ts";
import { type BenchGateway, GATEWAY_PROGRAM, startBenchGateway } from "./gateway-process.ts";

const ENGINE_PROGRAM = join(import.meta.dirname, "../../support/engine/main.js");

/**
 * Nodes whose prefill dominates the wait, as on a GPU with long prompts: a thousand tokens take 200 ms, so that the
 * machine's own overhead is small.
 */
export const SIMULATED = {
  kind: "simulator",
  tokensPerSecond: 200,
  prefillTokensPerSecond: 5_000,
  timeToFirstTokenMs: 20,
  slots: 32,
  answerTokens: { min: 24, max: 48 },
};

/** Nodes with the demonstration model on the CPU: requests pass a real template, tokenizer, grammar and parser. */
export const DEMONSTRATION = {
  kind: "llama",
  modelPath: join(import.meta.dirname, "../../../../engine/demo-model/demo.gguf"),
  contextTokens: 4_096,
  slots: 8,
  threads: 1,
};

export type NodeFleetOptions = {
  readonly nodes: number;
  readonly backend: object;
  /** The cluster settings of the gateway beside endpoints. Default: the gateway's own. */
  readonly cluster?: object;
};

export type NodeFleet = {
  readonly gateway: BenchGateway;
  readonly nodePids: readonly number[];
  /** Resolves to the number of generations that each node has begun. */
  generations(): Promise<readonly number[]>;
  stop(): Promise<void>;
};

/** Starts a new fleet with empty caches. Its configuration is written to `folder`. */
export async function startNodeFleet(
  { nodes, backend, cluster = {} }: NodeFleetOptions,
  folder: string,
): Promise<NodeFleet> {
  await mkdir(folder, { recursive: true });
  const names = Array.from({ length: nodes }, (_, index) => `node-${index}`);
  const engines = await Promise.all(names.map((name) => startNode(name, backend, folder)));
  const gateway = await startBenchGateway(GATEWAY_PROGRAM, join(folder, "gateway"), {
    engines: engines.map(({ ready }) => String(ready.address)),
    cluster,
  });
  return {
    gateway,
    nodePids: engines.map(({ pid }) => pid),
    generations: () => Promise.all(engines.map(({ ready }) => generationsOf(Number(ready.metricsPort)))),
    async stop() {
      for (const child of [gateway, ...engines]) await child.stop();
    },
  };
}

/** Starts one engine node with the given `backend`; its configuration is written to `folder`. */
export async function startNode(nodeId: string, backend: object, folder: string): Promise<RunningChild> {
  const file = join(folder, `${nodeId}.yaml`);
  const config = { nodeId, models: ["svc-qwen"], listen: { port: 0 }, metrics: { port: 0 }, backend };
  await writeFile(file, stringify(config));
  return startChild(nodeId, ENGINE_PROGRAM, ["--config", file], folder);
}

async function generationsOf(metricsPort: number): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  return metricSum(await response.text(), "svc_engine_generations_total");
}
