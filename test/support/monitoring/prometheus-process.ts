import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { becomes } from "../becomes.ts";
import { freePort } from "../free-port.ts";
import { killed } from "../processes/fleet-process.ts";
import { ALERTS_FILE } from "./alert-rules.ts";

const CONFIG_FILE = join(ALERTS_FILE, "../prometheus.yaml");

export const HAS_PROMETHEUS = spawnSync("prometheus", ["--version"]).error === undefined;
export const NO_PROMETHEUS = "prometheus is not installed";

type Found = { readonly metric: Readonly<Record<string, string>>; readonly value: readonly [number, string] };

export type PrometheusProcess = Awaited<ReturnType<typeof startPrometheus>>;

type Options = {
  readonly targets: number;
  /** The command that runs a program on a host whose name server has these names. */
  readonly through: readonly string[];
  /** The divisor of the shipped intervals and of `for`. The ranges of queries are unchanged. */
  readonly faster: number;
  /** The addresses of services that are not where their names say. */
  readonly places: Readonly<Record<string, string>>;
};

/** Starts Prometheus with the shipped configuration and alerts; only times change. */
export async function startPrometheus({ targets, through, faster, places }: Options) {
  const folder = mkdtempSync(join(tmpdir(), "svc-prometheus-"));
  const config = parse(readFileSync(CONFIG_FILE, "utf8"));
  const quicker = (time: string) => `${Math.max(1, Math.round(secondsOf(time) / faster))}s`;
  const { scrape_interval: scrape, evaluation_interval: evaluation } = config.global;
  config.global = { scrape_interval: quicker(scrape), evaluation_interval: quicker(evaluation) };
  for (const { static_configs = [] } of [...config.scrape_configs, ...config.alerting.alertmanagers])
    for (const fixed of static_configs)
      fixed.targets = fixed.targets.map((target: string) => places[target.split(":")[0] ?? ""] ?? target);
  for (const { dns_sd_configs = [] } of config.scrape_configs)
    for (const names of dns_sd_configs) names.refresh_interval = quicker(names.refresh_interval);
  const alerts = readFileSync(ALERTS_FILE, "utf8").replaceAll(/\bfor: (\d+\w)/g, (_, time) => `for: ${quicker(time)}`);
  writeFileSync(join(folder, "prometheus.yaml"), stringify(config));
  writeFileSync(join(folder, "alerts.yaml"), alerts);
  const port = await freePort();
  const args = [`--config.file=${join(folder, "prometheus.yaml")}`, `--storage.tsdb.path=${join(folder, "data")}`];
  const [command = "", ...rest] = [...through, "prometheus", ...args, `--web.listen-address=127.0.0.1:${port}`];
  const child = spawn(command, rest, { stdio: "ignore" });
  const get = async <Data>(path: string): Promise<Data> => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1${path}`);
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${text}`);
    return JSON.parse(text).data;
  };
  const query = async (expr: string) =>
    (await get<{ readonly result: readonly Found[] }>(`/query?${new URLSearchParams({ query: expr })}`)).result;
  await becomes(async () => {
    if (child.exitCode !== null) throw new Error(`prometheus ended with ${child.exitCode}`);
    return (await query("sum(up)").catch(() => []))[0]?.value[1] === String(targets);
  }, "Prometheus has read all targets");
  return {
    scrapeSeconds: secondsOf(quicker(scrape)),
    query,
    async alerts(state: "pending" | "firing"): Promise<readonly string[]> {
      type Labels = { readonly alertname: string; readonly severity: string };
      type Alert = { readonly labels: Labels; readonly state: string };
      const { alerts } = await get<{ readonly alerts: readonly Alert[] }>("/alerts");
      return alerts
        .filter((alert) => alert.state === state && alert.labels.severity !== "none")
        .map(({ labels }) => labels.alertname);
    },
    names: async () => new Set(await get<readonly string[]>("/label/__name__/values")),
    async end(): Promise<void> {
      await killed(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns the seconds of a time in Prometheus' form with one unit, such as `15s` or `2h`. */
function secondsOf(time: string): number {
  const unit = { s: 1, m: 60, h: 3_600, d: 86_400 }[time.slice(-1)] ?? Number.NaN;
  return Number(time.slice(0, -1)) * unit;
}
