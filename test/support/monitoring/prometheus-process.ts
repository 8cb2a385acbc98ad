import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { becomes } from "../becomes.ts";
import { freePort } from "../free-port.ts";
import { ALERTS_FILE } from "./alert-rules.ts";

const CONFIG_FILE = join(ALERTS_FILE, "../prometheus.yaml");

export const HAS_PROMETHEUS = spawnSync("prometheus", ["--version"]).error === undefined;
/** The reason why a test that needs Prometheus is skipped. */
export const NO_PROMETHEUS = "prometheus is not installed";

/** A series of a query's result, with its newest value. */
export type Found = { readonly metric: Readonly<Record<string, string>>; readonly value: readonly [number, string] };

export type PrometheusOptions = {
  readonly targets: number;
  /** The command that runs a program on a host whose name server has these names. */
  readonly through: readonly string[];
  /**
   * The divisor of the times in the shipped configuration and alerts: the intervals of discovery, scrapes and rules,
   * and `for`. The ranges of queries are unchanged.
   */
  readonly faster: number;
};

/** A Prometheus with the shipped configuration and alerts; a test only changes times. */
export class PrometheusProcess {
  /** The time between two scrapes, in seconds. */
  readonly scrapeSeconds: number;
  readonly #url: string;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(port: number, scrapeSeconds: number, child: ChildProcess, folder: string) {
    this.#url = `http://127.0.0.1:${port}/api/v1`;
    this.scrapeSeconds = scrapeSeconds;
    this.#child = child;
    this.#folder = folder;
  }

  static async start({ targets, through, faster }: PrometheusOptions): Promise<PrometheusProcess> {
    const folder = mkdtempSync(join(tmpdir(), "svc-prometheus-"));
    const config = parse(readFileSync(CONFIG_FILE, "utf8"));
    const quicker = (time: string) => `${Math.max(1, Math.round(secondsOf(time) / faster))}s`;
    const { scrape_interval: scrape, evaluation_interval: evaluation } = config.global;
    config.global = { scrape_interval: quicker(scrape), evaluation_interval: quicker(evaluation) };
    for (const job of config.scrape_configs)
      for (const names of job.dns_sd_configs) names.refresh_interval = quicker(names.refresh_interval);
    const alerts = readFileSync(ALERTS_FILE, "utf8").replaceAll(
      /\bfor: (\d+\w)/g,
      (_, time) => `for: ${quicker(time)}`,
    );
    writeFileSync(join(folder, "prometheus.yaml"), stringify(config));
    writeFileSync(join(folder, "alerts.yaml"), alerts);
    const port = await freePort();
    const args = [`--config.file=${join(folder, "prometheus.yaml")}`, `--storage.tsdb.path=${join(folder, "data")}`];
    const [command = "", ...rest] = [...through, "prometheus", ...args, `--web.listen-address=127.0.0.1:${port}`];
    const child = spawn(command, rest, { stdio: "ignore" });
    const prometheus = new PrometheusProcess(port, secondsOf(quicker(scrape)), child, folder);
    await becomes(async () => {
      if (child.exitCode !== null) throw new Error(`prometheus ended with ${child.exitCode}`);
      return (await prometheus.query("sum(up)").catch(() => []))[0]?.value[1] === String(targets);
    }, "Prometheus has read all targets");
    return prometheus;
  }

  async query(expr: string): Promise<readonly Found[]> {
    const { data } = await this.#get(`/query?${new URLSearchParams({ query: expr })}`);
    return (data as { readonly result: readonly Found[] }).result;
  }

  async alerts(state: "pending" | "firing"): Promise<readonly string[]> {
    const { data } = await this.#get("/alerts");
    const { alerts } = data as { readonly alerts: readonly { labels: { alertname: string }; state: string }[] };
    return alerts.filter((alert) => alert.state === state).map(({ labels }) => labels.alertname);
  }

  async names(): Promise<ReadonlySet<string>> {
    return new Set((await this.#get("/label/__name__/values")).data as readonly string[]);
  }

  async end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill("SIGKILL");
      await once(this.#child, "close");
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #get(path: string): Promise<{ readonly data: unknown }> {
    const response = await fetch(`${this.#url}${path}`);
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${text}`);
    return JSON.parse(text);
  }
}

/** Returns the seconds of a time in Prometheus' form with one unit, such as `15s` or `2h`. */
function secondsOf(time: string): number {
  const unit = { s: 1, m: 60, h: 3_600, d: 86_400 }[time.slice(-1)] ?? Number.NaN;
  return Number(time.slice(0, -1)) * unit;
}
