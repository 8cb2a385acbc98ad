import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { metricSum } from "../../support/metric-text.ts";
import { type RunningChild, startChild } from "./child-process.ts";
import { type BenchGateway, GATEWAY_PROGRAM, startBenchGateway } from "./gateway-process.ts";

const ENGINE_PROGRAM = join(import.meta.dirname, "../../../engine/main.js");

/**
 * Nodes whose prefill is what a caller waits for, as on a GPU with long prompts: a thousand tokens take 200 ms, so that
 * what the machine under the bench adds hardly shows.
 */
const BACKEND = {
  kind: "simulator",
  tokensPerSecond: 200,
  prefillTokensPerSecond: 5_000,
  timeToFirstTokenMs: 20,
  slots: 32,
  answerTokens: { min: 24, max: 48 },
};

/** Engine nodes with simulated engines and one gateway in front of them, all processes of their own. */
export type SimulatedFleet = {
  readonly gateway: BenchGateway;
  /** Generations that each node has begun. */
  generations(): Promise<readonly number[]>;
  stop(): Promise<void>;
};

/** Starts a fresh fleet, in which nothing is cached anywhere. Its configuration goes into `folder`. */
export async function startSimulatedFleet(nodes: number, lbPolicy: string, folder: string): Promise<SimulatedFleet> {
  await mkdir(folder, { recursive: true });
  const engines = await Promise.all(Array.from({ length: nodes }, (_, index) => startNode(`node-${index}`, folder)));
  const gateway = await startBenchGateway(GATEWAY_PROGRAM, join(folder, "gateway"), {
    engines: engines.map(({ ready }) => String(ready.address)),
    cluster: { lbPolicy },
  });
  return {
    gateway,
    generations: () => Promise.all(engines.map(({ ready }) => generationsOf(Number(ready.metricsPort)))),
    async stop() {
      for (const child of [gateway, ...engines]) await child.stop();
    },
  };
}

async function startNode(nodeId: string, folder: string): Promise<RunningChild> {
  const file = join(folder, `${nodeId}.yaml`);
  const config = { nodeId, models: ["svc-qwen"], listen: { port: 0 }, metrics: { port: 0 }, backend: BACKEND };
  await writeFile(file, stringify(config));
  return startChild(nodeId, ENGINE_PROGRAM, ["--config", file], folder);
}

async function generationsOf(metricsPort: number): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  return metricSum(await response.text(), "svc_engine_generations_total");
}
