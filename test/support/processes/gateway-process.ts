import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { issueLocalKey } from "../../../gateway/keys/local-key.ts";
import { becomes } from "../becomes.ts";
import { metricSum } from "../metric-text.ts";
import { FleetProcess } from "./fleet-process.ts";
import { createKey } from "./key-command.ts";

/** The fields of a request's line in the log that tests look at. */
export type LoggedRequest = {
  readonly request_id: string;
  readonly code: number;
  readonly detail?: string;
  readonly end_reason?: string;
  readonly attempts?: number;
  readonly endpoint?: string;
  readonly response_flags: string;
};

type Ready = { readonly baseUrl: string; readonly adminUrl: string };

/** The gateway as a process of its own, with a key for all models. */
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

  /** `config`: beside ports and keys. `through`: as `FleetProcess` says. */
  static async start(config: object, through: readonly string[] = []): Promise<GatewayProcess> {
    const folder = mkdtempSync(join(tmpdir(), "svc-front-"));
    const file = join(folder, "keys.json");
    const nobodyLeaves = new AbortController().signal;
    const key = await issueLocalKey({ file, existing: undefined, nowMs: Date.now() }, nobodyLeaves);
    const whole = { listen: { port: 0 }, admin: { port: 0 }, keys: { file }, ...config };
    const { process, ready } = await FleetProcess.start<Ready>("gateway/main.js", whole, through);
    return new GatewayProcess(process, ready, key, folder);
  }

  get keyFile(): string {
    return join(this.#folder, "keys.json");
  }

  get port(): number {
    return Number(new URL(this.baseUrl).port);
  }

  /** A further key with these options of `keys create`, which the gateway knows. */
  async createKey(...options: readonly string[]): Promise<string> {
    const key = await createKey(this.keyFile, ...options);
    await becomes(async () => (await this.models(key)).status === 200, "the key is known");
    return key;
  }

  /** The answer to a key that asks for its models. */
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

  /** Leases, calls, waiting requests, retries and streams that are open. */
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

  /** Of an endpoint in `svc-qwen`, as `/clusters` prints it. */
  async health(address: string): Promise<string | undefined> {
    const text = await (await fetch(`${this.adminUrl}/clusters`)).text();
    return new RegExp(`^svc-qwen::${address}::health_flags::(.*)$`, "m").exec(text)?.[1];
  }

  /** The line of a request, once it is written. */
  logged(requestId: string): LoggedRequest | undefined {
    const line = this.process.log.find((each) => each.msg === "request" && each.request_id === requestId);
    return line as LoggedRequest | undefined;
  }

  async end(): Promise<void> {
    await this.process.end();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
