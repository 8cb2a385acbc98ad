import cluster from "node:cluster";
import { FleetBook } from "../../gateway/fleet/fleet-board.ts";
import { answerReports, FLEET_TOPIC } from "../../gateway/fleet/worker-board.ts";
import { LimitHost } from "../../gateway/limits/limit-host.ts";
import { LIMITS_TOPIC } from "../../gateway/limits/limit-message.ts";
import { MemoryLimitStore } from "../../gateway/limits/memory-limit-store.ts";
import { OrderBook } from "../../gateway/upstream/orders/order-board.ts";
import { answerOrders, ORDERS_TOPIC } from "../../gateway/upstream/orders/worker-orders.ts";
import { UsageBook } from "../../gateway/usage/usage-book.ts";
import { answerUsage, USAGE_TOPIC } from "../../gateway/usage/worker-usage.ts";
import type { WorkersMessage } from "../../gateway/workers.ts";
import { processChannel } from "../runtime/process/process-channel.ts";
import { systemClock } from "../runtime/time/clock.ts";
import { Child, startWorker } from "./child.ts";
import { adminPort, type LocalOptions } from "./options.ts";
import { type State, writeGatewayConfig } from "./state.ts";
import type { Program } from "./supervisor.ts";

/** The facts that the gateway workers of one start are made from. */
export type GatewayWorkersOptions = {
  /** The path of the built gateway. */
  readonly program: string;
  /** The files of the start, among them the keys of callers. */
  readonly state: State;
  /** The options of the command line, which say how many workers there are and on which ports. */
  readonly options: LocalOptions;
  /** The addresses of the engine nodes, as `host:port`. */
  readonly engines: readonly string[];
};

/**
 * The place of one worker: what stays the same when the worker is started again, and the process that has the place
 * now.
 */
type Place = { adminPort: number; adminUrl: string | undefined; process: ReturnType<typeof startWorker> | undefined };

/**
 * Runs the gateway workers of one start. They share the public port, through this process; each has an admin port of
 * its own, which it keeps when it is started again. What keys use is counted here for all workers, and what operators
 * have ordered of endpoints is kept, so that all of it outlives each of them.
 */
export class GatewayWorkers {
  readonly #options: GatewayWorkersOptions;
  readonly #limits = new LimitHost(new MemoryLimitStore(systemClock));
  readonly #orders = new OrderBook(systemClock);
  readonly #usage = new UsageBook(systemClock);
  readonly #fleet = new FleetBook(systemClock);
  readonly #places: readonly Place[];
  /** The public port as the workers that run were told it: 0 where they were told to take any free one. */
  #port: number;
  /** The public port that the workers have; until one is ready, the port that the options ask for. */
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

  /** The workers as programs for a supervisor, one for each gateway that the options ask for. */
  get programs(): readonly Program[] {
    return this.#places.map((place, at) => ({ name: `gateway ${at + 1}`, start: () => this.#start(place, at + 1) }));
  }

  /** The admin URLs of the workers that are ready, in the order of the workers. */
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
    process.once("exit", this.#limits.attach(processChannel(process, LIMITS_TOPIC)));
    process.once("exit", answerOrders(this.#orders, processChannel(process, ORDERS_TOPIC)));
    answerReports(this.#fleet, processChannel(process, FLEET_TOPIC));
    answerUsage(this.#usage, processChannel(process, USAGE_TOPIC));
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

  /**
   * Tells every worker the admin URLs of all. It waits until all are known: a page that names some of them would be
   * taken for the whole.
   */
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
