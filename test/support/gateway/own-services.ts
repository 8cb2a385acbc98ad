import { onTestFinished } from "vitest";
import type { Script } from "../engine/scripted-backend.ts";
import { type RunningEngine, startEngine } from "../engine/start-engine.ts";
import { startGateway } from "./start-gateway.ts";

/** Starts a scripted engine, which the end of the test stops. */
export async function engineOf(...given: Parameters<typeof startEngine>) {
  const engine = await startEngine(...given);
  onTestFinished(() => engine.stop());
  return engine;
}

/** Starts a gateway in front of engines, as `startGateway` does; the end of the test stops it. */
export async function gatewayOf(engines: readonly { readonly address: string }[], settings: object = {}) {
  const gateway = await startGateway(
    engines.map(({ address }) => address),
    settings as Readonly<Record<string, unknown>>,
  );
  onTestFinished(() => gateway.stop());
  return gateway;
}

/** Starts a service, whose settings may depend on the engine. The end of the test stops it. */
export async function ownService(script: Script, settings: object | ((engine: RunningEngine) => object) = {}) {
  const engine = await engineOf(script);
  return { engine, gateway: await gatewayOf([engine], typeof settings === "function" ? settings(engine) : settings) };
}
