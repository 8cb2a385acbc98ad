import { join } from "node:path";
import { freePort } from "../free-port.ts";
import { metricSum } from "../metric-text.ts";
import type { EarlierRelease } from "./earlier-release.ts";
import { FleetProcess } from "./fleet-process.ts";

type Ready = { readonly address: string; readonly metricsPort: number };

/** Where a node runs. Default: this host, on a free port. */
export type EngineSetup = {
  readonly host?: string;
  readonly port?: number;
  readonly tls?: object;
  readonly settings?: object;
  readonly metricsHost?: string;
  /** Command prefix that runs the node elsewhere, as in `FleetProcess`. */
  readonly through?: readonly string[];
  /** The built program below `dist/`. Default: the one with the backends of tests. */
  readonly program?: string;
  /** Release of the node. Default: this one. */
  readonly release?: Pick<EarlierRelease, "dist"> | undefined;
};

const FAST = {
  kind: "simulator",
  tokensPerSecond: 500,
  prefillTokensPerSecond: 1_000_000,
  timeToFirstTokenMs: 5,
  slots: 32,
  answerTokens: { min: 16, max: 16 },
};

export class EngineProcess {
  readonly #config: object;
  readonly #setup: EngineSetup;
  #process: FleetProcess;
  #ready: Ready;

  private constructor(config: object, setup: EngineSetup, process: FleetProcess, ready: Ready) {
    this.#config = config;
    this.#setup = setup;
    this.#process = process;
    this.#ready = ready;
  }

  /** Starts a node. Without a `kind`, `backend` holds the settings that differ from those of a fast simulator. */
  static async start(
    nodeId: string,
    backend: object = {},
    models: readonly string[] = ["svc-qwen"],
    setup: EngineSetup = {},
  ): Promise<EngineProcess> {
    const settings = "kind" in backend ? backend : { ...FAST, ...backend };
    const metrics = { host: setup.metricsHost ?? LOOPBACK, port: 0 };
    const own = { metrics, log: { level: "warn" }, ...(setup.tls && { tls: setup.tls }), ...setup.settings };
    const config = { nodeId, models, backend: settings, ...own };
    const { process, ready } = await startOn(config, setup);
    return new EngineProcess(config, setup, process, ready);
  }

  /** `host:port` of the node's gRPC, which stays the same after a restart. */
  get address(): string {
    return this.#ready.address;
  }

  get log(): FleetProcess["log"] {
    return this.#process.log;
  }

  get running(): boolean {
    return this.#process.running;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }

  async stop(): Promise<number | null> {
    this.#process.signal("SIGTERM");
    return this.#process.ended;
  }

  async kill(): Promise<void> {
    await this.#process.end();
  }

  async startAgain(): Promise<void> {
    const port = Number(this.address.split(":").at(-1));
    const { process, ready } = await startOn(this.#config, { ...this.#setup, port });
    this.#process = process;
    this.#ready = ready;
  }

  async metric(name: string): Promise<number> {
    return metricSum(await this.metrics(), name);
  }

  async metrics(): Promise<string> {
    return (await this.metricsPort("/metrics")).text();
  }

  metricsPort(path: string): Promise<Response> {
    return fetch(`http://${this.#setup.metricsHost ?? LOOPBACK}:${this.#ready.metricsPort}${path}`);
  }

  async busy(): Promise<number> {
    const text = await this.metrics();
    const names = ["svc_engine_slots_busy", "svc_engine_queue", "svc_engine_running"];
    return names.reduce((sum, name) => sum + metricSum(text, name), 0);
  }
}

const LOOPBACK = "127.0.0.1";

async function startOn(config: object, { host = LOOPBACK, port, through = [], program: own, release }: EngineSetup) {
  const listen = { host, port: port ?? (await freePort()) };
  // The product of an earlier release holds the simulator.
  const program = release ? join(release.dist, "engine/main.js") : (own ?? "test/support/engine/main.js");
  return FleetProcess.start<Ready>(program, { ...config, listen }, through);
}
