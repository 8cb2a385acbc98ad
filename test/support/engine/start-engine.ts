import { pino } from "pino";
import { EngineMetrics } from "../../../engine/metrics/engine-metrics.ts";
import { EngineServer } from "../../../engine/server.ts";
import { CATALOG } from "../../../gateway/catalog.ts";
import { freePort } from "../free-port.ts";
import { type Script, ScriptedBackend, type ScriptedOptions } from "./scripted-backend.ts";
import { workHere } from "./work-here.ts";

export type RunningEngine = Awaited<ReturnType<typeof startEngine>>;

/** Starts a scripted engine node over real gRPC, on a free port or on `port`, of `host` or of 127.0.0.1. */
export async function startEngine(
  script: Script,
  options: Partial<ScriptedOptions> & { readonly port?: number; readonly host?: string } = {},
) {
  const nodeId = options.nodeId ?? "scripted";
  const models = options.models ?? CATALOG.map((model) => model.id);
  const backend = new ScriptedBackend({ slots: 1_000, ...options, nodeId, models, script });
  const metrics = new EngineMetrics();
  const log = pino({ level: "silent" });
  const server = new EngineServer({ nodeId, nodeVersion: "test", models, backend, work: workHere, metrics, log });
  const port = await server.listen(options.host ?? "127.0.0.1", options.port ?? (await freePort()));
  server.serve();
  return {
    address: `127.0.0.1:${port}`,
    backend,
    metrics,
    server,
    stop: () => server.close(0, AbortSignal.abort()),
  };
}
