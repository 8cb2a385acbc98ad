import cluster from "node:cluster";
import { LimitHost } from "../../gateway/limits/limit-host.ts";
import { MemoryLimitStore } from "../../gateway/limits/memory-limit-store.ts";
import { processChannel } from "../../gateway/limits/process-channel.ts";
import type { WorkersMessage } from "../../gateway/workers.ts";
import { systemClock } from "../runtime/time/clock.ts";
import { Child, startWorker } from "./child.ts";
import { adminPort, type LocalOptions } from "./options.ts";
import { type State, writeGatewayConfig } from "./state.ts";
import type { Program } from "./supervisor.ts";

export type GatewayWorkersOptions = {
  /** The built gateway. */
  readonly program: string;
  readonly state: State;
  readonly options: LocalOptions;
  /** host:port of the engine nodes. */
  readonly engines: readonly string[];
};

type Place = { adminPort: number; adminUrl: string | undefined; process: ReturnType<typeof startWorker> | undefined };

/**
 * The gateway workers of one start. They share the public port, through this process; each has an admin port of its own, which
 * it keeps when it is started again. What keys use is counted here for all of them, so that it outlives each.
 */
export class GatewayWorkers {
  readonly #options: GatewayWorkersOptions;
  readonly #limits = new LimitHost(new MemoryLimitStore(systemClock));
  readonly #places: readonly Place[];
  /** As the workers that run were told. */
  #port: number;
  #knownPort: number;

  constructor(options: GatewayWorkersOptions) {
    const { port, gateways } = options.options;
    this.#options = options;
    this.#port = port;
    this.#knownPort = port;
    this.#places = Array.from({ length: gateways }, (_, at) => ({
      adminPort: adminPort(options.options, at),
      adminUrl: undefined,
      process: undefined,
    }));
  }

  get programs(): readonly Program[] {
    return this.#places.map((place, at) => ({ name: `gateway ${at + 1}`, start: () => this.#start(place, at + 1) }));
  }

  /** In their order; of those that are ready. */
  get adminUrls(): readonly string[] {
    return this.#places.flatMap(({ adminUrl }) => adminUrl ?? []);
  }

  async #start(place: Place, index: number): Promise<Child> {
    const { program, state, options, engines } = this.#options;
    // Workers share a socket only under the same name for it: a free port must not be asked for by its number while some live.
    if (Object.keys(cluster.workers ?? {}).length === 0) this.#port = this.#knownPort;
    const where = { index, port: this.#port, adminPort: place.adminPort };
    const config = await writeGatewayConfig(state, options, engines, where);
    const process = startWorker(program, ["--config", config]);
    const detach = this.#limits.attach(processChannel(process));
    process.once("exit", detach);
    place.process = process;
    const child = new Child(`gateway ${index}`, process);
    child.ready.then(
      ({ baseUrl, adminUrl }) => {
        this.#knownPort = portOf(baseUrl);
        place.adminPort = portOf(adminUrl);
        place.adminUrl = String(adminUrl);
        this.#tellAll();
      },
      () => {},
    );
    return child;
  }

  /** Only when all are known: a page that names some of them would be taken for the whole. */
  #tellAll(): void {
    const workers = this.adminUrls;
    if (workers.length < this.#places.length) return;
    const message: WorkersMessage = { workers };
    for (const { process } of this.#places) if (process?.connected) process.send(message, () => {});
  }
}

function portOf(url: unknown): number {
  return Number(new URL(String(url)).port || 80);
}
