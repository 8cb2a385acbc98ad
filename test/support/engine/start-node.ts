import { pino } from "pino";
import type { Backend } from "../../../engine/backend.ts";
import { EngineMetrics } from "../../../engine/metrics/engine-metrics.ts";
import { EngineServer, type EngineServerOptions } from "../../../engine/server.ts";
import { freePort } from "../free-port.ts";
import { workHere } from "./work-here.ts";

export type RunningNode = Awaited<ReturnType<typeof startNode>>;

/** Starts a node over real gRPC in front of any backend, on a free port by default. */
export async function startNode(
  backend: Backend,
  {
    serving = true,
    port: wanted,
    host = "127.0.0.1",
    ...options
  }: Partial<EngineServerOptions> & { readonly serving?: boolean; readonly port?: number; readonly host?: string } = {},
) {
  const metrics = new EngineMetrics();
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line) => lines.push(JSON.parse(line)) });
  const node = { nodeId: "n1", nodeVersion: "test", models: ["svc-qwen"], backend, metrics, log };
  const server = new EngineServer({ work: workHere, ...node, ...options });
  const port = await server.listen(host, wanted ?? (await freePort()));
  if (serving) server.serve();
  return {
    address: `127.0.0.1:${port}`,
    server,
    metrics,
    lines,
    gauge: async (name: string) => {
      const found = await metrics.registry.getSingleMetric(name)?.get();
      return found?.values[0]?.value ?? Number.NaN;
    },
    stop: () => server.close(0, AbortSignal.abort()),
  };
}
