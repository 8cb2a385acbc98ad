import { pino } from "pino";
import { CATALOG } from "../../../gateway/catalog.ts";
import { type Script, ScriptedBackend, type ScriptedOptions } from "./scripted-backend.ts";
import { startNode } from "./start-node.ts";

export type RunningEngine = Awaited<ReturnType<typeof startEngine>>;

/** Starts a scripted engine node over real gRPC, on a free port or on `port`, of `host` or of 127.0.0.1. */
export async function startEngine(
  script: Script,
  options: Partial<ScriptedOptions> & { readonly port?: number; readonly host?: string } = {},
) {
  const nodeId = options.nodeId ?? "scripted";
  const models = options.models ?? CATALOG.map((model) => model.id);
  const { port, host } = options;
  const backend = new ScriptedBackend({ slots: 1_000, ...options, nodeId, models, script });
  const own = { nodeId, models, log: pino({ level: "silent" }), ...(port && { port }), ...(host && { host }) };
  return { ...(await startNode(backend, own)), backend };
}
