import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { env } from "node:process";
import { issueLocalKey } from "../../../gateway/keys/local-key.ts";
import { becomes } from "../becomes.ts";
import { metricSum } from "../metric-text.ts";
import type { EarlierRelease } from "./earlier-release.ts";
import { FleetProcess } from "./fleet-process.ts";
import { createKey } from "./key-command.ts";

/** The fields of a request's line in the log that tests look at. */
export type LoggedRequest = {
  readonly request_id: string;
  readonly code: number;
  readonly detail?: string;
  readonly end_reason?: string;
  readonly attempts?: number;
  readonly continuations?: number;
  readonly endpoint?: string;
  readonly response_flags: string;
};

type Ready = { readonly baseUrl: string; readonly adminUrl: string };

/** Runs the gateway as a process of its own, with a key for all models. */
export class GatewayProcess {
  readonly baseUrl: string;
  readonly adminUrl: string;
  readonly key: string;
  readonly process: FleetProcess;
  readonly #folder: string;

  private constructor(process: FleetProcess, { baseUrl, adminUrl }: Ready, key: string, folder: string) {
    this.process = process;
    this.baseUrl = baseUrl;
    this.adminUrl = adminUrl;
    this.key = key;
    this.#folder = folder;
  }

  /**
   * Starts a gateway. `config` is its configuration beside ports and keys, `through` a command as `FleetProcess` says.
   * Its wire is that of `SVC_TEST_WIRE`, where that is set. An earlier `release` makes its key itself.
   */
  static async start(
    config: object,
    through: readonly string[] = [],
    release?: EarlierRelease,
  ): Promise<GatewayProcess> {
    const folder = mkdtempSync(join(tmpdir(), "svc-front-"));
    const file = join(folder, "keys.json");
    const nobodyLeaves = new AbortController().signal;
    const key =
      release?.createKey(file) ?? (await issueLocalKey({ file, existing: undefined, nowMs: Date.now() }, nobodyLeaves));
    const upstream = { wire: env.SVC_TEST_WIRE };
    // Nothing in front has to notice that the gateway ends.
    const whole = {
      listen: { port: 0 },
      admin: { port: 0 },
      keys: { file },
      drainGraceMs: 0,
      ...(!release && { upstream }),
      ...config,
    };
    const program = join(release?.dist ?? "", "gateway/main.js");
    const { process, ready } = await FleetProcess.start<Ready>(program, whole, through);
    return new GatewayProcess(process, ready, key, folder);
  }

  /** The path of the key file. */
  get keyFile(): string {
    return join(this.#folder, "keys.json");
  }

  /** The port of the public API. */
  get port(): number {
    return Number(new URL(this.baseUrl).port);
  }

  /** Makes a further key with these options of `keys create`. Resolves to its text once the gateway knows it. */
  async createKey(...options: readonly string[]): Promise<string> {
    const key = await createKey(this.keyFile, ...options);
    await becomes(async () => (await this.models(key)).status === 200, "the key is known");
    return key;
  }

  /** Resolves to the answer to a key that asks for its models. */
  models(key = this.key): Promise<Response> {
    return fetch(`${this.baseUrl}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  }

  /** Sends a body as JSON, with a key for all models unless another one is given. */
  post(path: string, body: unknown, signal?: AbortSignal, key = this.key): Promise<Response> {
    return fetch(`${this.baseUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
  }

  /** Resolves to the measurements of the gateway. */
  async stats(): Promise<string> {
    return (await fetch(`${this.adminUrl}/stats`)).text();
  }

  /** Resolves to the sum of a measurement's series, of those with these labels where some are given. */
  async stat(name: string, labels?: string): Promise<number> {
    return metricSum(await this.stats(), name, labels);
  }

  /** Resolves to the number of leases, calls, waiting requests, retries and streams that are open. */
  async open(): Promise<number> {
    const text = await this.stats();
    const names = [
      "svc_endpoint_rq_active",
      "svc_cluster_upstream_rq_active",
      "svc_cluster_upstream_rq_pending_active",
      "svc_cluster_upstream_rq_retry_active",
      "svc_streams_active",
      "svc_streams_paused_backpressure",
    ];
    return names.reduce((sum, name) => sum + metricSum(text, name), 0);
  }

  /** Resolves to the health flags of an endpoint of `svc-qwen`, as `/clusters` prints them. */
  async health(address: string): Promise<string | undefined> {
    const text = await (await fetch(`${this.adminUrl}/clusters`)).text();
    return new RegExp(`^svc-qwen::${address}::health_flags::(.*)$`, "m").exec(text)?.[1];
  }

  /** Returns the line of a request in the log, once it is written. */
  logged(requestId: string): LoggedRequest | undefined {
    const line = this.process.log.find((each) => each.msg === "request" && each.request_id === requestId);
    return line as LoggedRequest | undefined;
  }

  /** Ends the process at once and removes its files. */
  async end(): Promise<void> {
    await this.process.end();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
