import type { Script } from "../engine/scripted-backend.ts";
import { type RunningEngine, startEngine } from "../engine/start-engine.ts";
import { type RunningGateway, startGateway } from "./start-gateway.ts";

/** Services for one test each: a scripted engine, and a gateway in front of it. */
export class OwnServices {
  readonly #running: { stop(): Promise<void> }[] = [];

  /** Starts a service. The settings of its gateway may depend on the engine. */
  async start(
    script: Script,
    settings: object | ((engine: RunningEngine) => object) = {},
  ): Promise<{ engine: RunningEngine; gateway: RunningGateway }> {
    const engine = await startEngine(script);
    this.#running.push(engine);
    const gateway = await startGateway([engine.address], typeof settings === "function" ? settings(engine) : settings);
    this.#running.push(gateway);
    return { engine, gateway };
  }

  /** Stops all services, gateways before their engines. */
  async stop(): Promise<void> {
    for (const one of this.#running.splice(0).reverse()) await one.stop();
  }
}
