import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { env } from "node:process";
import { becomes } from "../becomes.ts";
import { metricSum } from "../metric-text.ts";
import type { EarlierRelease } from "./earlier-release.ts";
import { FleetProcess } from "./fleet-process.ts";
import { createKey } from "./key-command.ts";

/** Access log fields that tests read. */
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

  /** Starts a gateway. `config` is its configuration besides ports and keys. An earlier `release` makes its own key. */
  static async start(
    config: object,
    through: readonly string[] = [],
    release?: EarlierRelease,
  ): Promise<GatewayProcess> {
    const folder = mkdtempSync(join(tmpdir(), "svc-front-"));
    const file = join(folder, "keys.json");
    const key = release?.createKey(file) ?? (await createKey(file));
    const upstream = { wire: env.SVC_TEST_WIRE };
    // No proxy in front has to detect the stop.
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

  get keyFile(): string {
    return join(this.#folder, "keys.json");
  }

  get port(): number {
    return Number(new URL(this.baseUrl).port);
  }

  /** Makes a further key with these options of `keys create`. Resolves to its text once the gateway accepts it. */
  async createKey(...options: readonly string[]): Promise<string> {
    const key = await createKey(this.keyFile, ...options);
    await becomes(async () => (await this.models(key)).status === 200, "the key is known");
    return key;
  }

  models(key = this.key): Promise<Response> {
    return fetch(`${this.baseUrl}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  }

  post(path: string, body: unknown, signal?: AbortSignal, key = this.key): Promise<Response> {
    return fetch(`${this.baseUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
  }

  async stats(): Promise<string> {
    return (await fetch(`${this.adminUrl}/stats`)).text();
  }

  async stat(name: string, labels?: string): Promise<number> {
    return metricSum(await this.stats(), name, labels);
  }

  /** Resolves to the number of open leases, calls, waiting requests, retries and streams. */
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

  /** Resolves to the health flags of an endpoint of `svc-qwen`, as in `/clusters`. */
  async health(address: string): Promise<string | undefined> {
    const text = await (await fetch(`${this.adminUrl}/clusters`)).text();
    return new RegExp(`^svc-qwen::${address}::health_flags::(.*)$`, "m").exec(text)?.[1];
  }

  logged(requestId: string): LoggedRequest | undefined {
    const line = this.process.log.find((each) => each.msg === "request" && each.request_id === requestId);
    return line as LoggedRequest | undefined;
  }

  async end(): Promise<void> {
    await this.process.end();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
