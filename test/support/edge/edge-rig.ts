import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Certificates } from "../certificates.ts";
import { freePort } from "../free-port.ts";
import { EngineProcess } from "../processes/engine-process.ts";
import { FleetProcess } from "../processes/fleet-process.ts";
import { createKey } from "../processes/key-command.ts";
import type { Edge } from "./edge-caller.ts";
import { EnvoyProcess } from "./envoy-process.ts";

/** The ports of a gateway, which it keeps after a restart. */
type Place = { readonly port: number; readonly healthPort: number; readonly grpcPort: number };

type Member = { readonly place: Place; process: FleetProcess };

/**
 * Makes the certificates of the edge, `live`, signed by `authority`, and of gateways, `gateway`, signed by
 * `gateways-ca`.
 */
export function edgeCertificates(): Certificates {
  const certificates = new Certificates();
  certificates.authority("authority");
  certificates.signed("first", "authority", "DNS:localhost,IP:127.0.0.1");
  for (const part of ["pem", "key"])
    copyFileSync(certificates.file(`first.${part}`), certificates.file(`live.${part}`));
  certificates.authority("gateways-ca");
  certificates.signed("gateway", "gateways-ca", "DNS:svc-gateway");
  return certificates;
}

/** An engine, two gateways with shipped timeouts, and Envoy in front with the shipped configuration. */
export class EdgeRig {
  readonly edge: Edge;
  readonly engine: EngineProcess;
  readonly envoy: EnvoyProcess;
  readonly certificates: Certificates;
  readonly #folder: string;
  readonly #gateways: readonly Member[];
  readonly #config: (place: Place) => object;

  private constructor(parts: {
    readonly edge: Edge;
    readonly engine: EngineProcess;
    readonly envoy: EnvoyProcess;
    readonly certificates: Certificates;
    readonly folder: string;
    readonly gateways: readonly Member[];
    readonly config: (place: Place) => object;
  }) {
    this.edge = parts.edge;
    this.engine = parts.engine;
    this.envoy = parts.envoy;
    this.certificates = parts.certificates;
    this.#folder = parts.folder;
    this.#gateways = parts.gateways;
    this.#config = parts.config;
  }

  /**
   * Starts all processes. `backend` holds the settings of the simulator. Resolves when Envoy considers all gateways
   * healthy.
   */
  static async start(backend: object, more: object = {}): Promise<EdgeRig> {
    const folder = mkdtempSync(join(tmpdir(), "svc-behind-"));
    const keyFile = join(folder, "keys.json");
    const key = await createKey(keyFile);
    const certificates = edgeCertificates();
    const grpcTls = { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") };
    const engine = await EngineProcess.start("behind", backend);
    const config = ({ port, healthPort, grpcPort }: Place) => ({
      listen: { port },
      admin: { port: 0 },
      health: { port: healthPort },
      grpc: { port: grpcPort, tls: grpcTls },
      keys: { file: keyFile },
      clusters: [{ model: "svc-qwen", endpoints: [{ address: engine.address }] }],
      xffNumTrustedHops: 1,
      ...more,
    });
    const start = async () => {
      const place = { port: await freePort(), healthPort: await freePort(), grpcPort: await freePort() };
      const { process } = await FleetProcess.start("gateway/main.js", config(place));
      return { place, process };
    };
    const gateways = await Promise.all([start(), start()]);
    const places = gateways.map(({ place }) => place);
    const envoy = await EnvoyProcess.start(places, certificates);
    const edge = { port: envoy.port, ca: readFileSync(certificates.file("authority.pem")), key };
    return new EdgeRig({ edge, engine, envoy, certificates, folder, gateways, config });
  }

  get logged(): readonly Readonly<Record<string, unknown>>[] {
    return this.#gateways.flatMap(({ process }) => process.log.filter(({ msg }) => msg === "request"));
  }

  get places(): readonly Place[] {
    return this.#gateways.map(({ place }) => place);
  }

  /** Stops the gateways one after the other and starts a replacement for each. Resolves to the exit codes. */
  async restartInTurn(): Promise<(number | null)[]> {
    const codes: (number | null)[] = [];
    for (const gateway of this.#gateways) {
      gateway.process.signal("SIGTERM");
      codes.push(await gateway.process.ended);
      await gateway.process.end();
      gateway.process = (await FleetProcess.start("gateway/main.js", this.#config(gateway.place))).process;
      await this.envoy.untilHealthy(gateway.place.port);
    }
    return codes;
  }

  /** Ends all processes and removes their files. */
  async end(): Promise<void> {
    await this.envoy.end();
    for (const { process } of this.#gateways) await process.end();
    await this.engine.kill();
    this.certificates.remove();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
