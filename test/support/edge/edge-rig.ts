import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Certificates } from "../certificates.ts";
import { freePort } from "../free-port.ts";
import { EngineProcess, type EngineSetup } from "../processes/engine-process.ts";
import { FleetProcess } from "../processes/fleet-process.ts";
import { createKey } from "../processes/key-command.ts";
import type { Edge } from "./edge-caller.ts";
import { startEnvoy } from "./envoy-process.ts";

/** The address of a gateway, and its ports, which it keeps after a restart. */
type Place = {
  readonly host: string;
  readonly port: number;
  readonly healthPort: number;
  readonly grpcPort: number;
};

/** Returns the place of a gateway, with free ports; with the shipped ones, as the shipped script expects, at an address of this process only. */
async function placeOf(at: number, hasShippedPorts: boolean): Promise<Place> {
  if (!hasShippedPorts)
    return { host: "127.0.0.1", port: await freePort(), healthPort: await freePort(), grpcPort: await freePort() };
  const host = `127.${(Math.floor(process.pid / 256) % 64) + 1}.${process.pid % 256}.${at + 1}`;
  return { host, port: 8_080, healthPort: 9_902, grpcPort: 50_050 };
}

/**
 * Makes the certificates of the edge, `live`, signed by `authority`, and of gateways, `gateway`, signed by
 * `gateways-ca`.
 */
export function edgeCertificates(): Certificates {
  const certificates = new Certificates();
  certificates.authority("authority");
  certificates.signed("first", "authority", "DNS:localhost,IP:127.0.0.1");
  certificates.show("first");
  certificates.authority("gateways-ca");
  certificates.signed("gateway", "gateways-ca", "DNS:svc-gateway");
  return certificates;
}

export type EdgeOptions = {
  readonly engine?: EngineSetup;
  /** Settings of the gateways, and of their cluster, besides those of the rig. */
  readonly gateway?: object;
  readonly cluster?: object;
  /** Command prefix that runs the gateways by exec. */
  readonly through?: readonly string[];
  /** Modifies the text of Envoy's configuration. */
  readonly change?: (config: string) => string;
  /** Envoy is run by the shipped script, with a grace time of so many seconds. */
  readonly drains?: { readonly graceS: number };
};

export type EdgeRig = Awaited<ReturnType<typeof startEdge>>;

/**
 * Starts an engine, two gateways with shipped timeouts, and Envoy in front with the shipped configuration. `backend` holds
 * the settings of the simulator. Resolves when Envoy considers all gateways healthy.
 */
export async function startEdge(
  backend: object,
  { engine: place = {}, gateway = {}, cluster = {}, through = [], change, drains }: EdgeOptions = {},
) {
  const folder = mkdtempSync(join(tmpdir(), "svc-behind-"));
  const keyFile = join(folder, "keys.json");
  const key = await createKey(keyFile);
  const certificates = edgeCertificates();
  const grpcTls = { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") };
  const engine = await EngineProcess.start("behind", backend, ["svc-qwen"], place);
  const startAt = async ({ host, port, healthPort, grpcPort }: Place) => {
    const config = {
      listen: { host, port },
      admin: { port: 0 },
      health: { host, port: healthPort },
      grpc: { host, port: grpcPort, tls: grpcTls },
      keys: { file: keyFile },
      clusters: [{ model: "svc-qwen", endpoints: [{ address: engine.address }], ...cluster }],
      xffNumTrustedHops: 1,
      ...gateway,
    };
    return (await FleetProcess.start("gateway/main.js", config, through)).process;
  };
  const start = async (at: number) => {
    const place = await placeOf(at, drains !== undefined);
    return { place, process: await startAt(place) };
  };
  const gateways = await Promise.all([start(0), start(1)]);
  const places = gateways.map(({ place }) => place);
  const envoy = await startEnvoy(places, certificates, change, drains);
  const edge: Edge = { port: envoy.port, ca: readFileSync(certificates.file("authority.pem")), key };
  return {
    ...{ edge, engine, envoy, certificates, places, gateways, keyFile },
    /** Starts a gateway that has ended again, at its ports. Resolves when Envoy considers it healthy. */
    async startAgain(gateway: (typeof gateways)[number]): Promise<void> {
      gateway.process = await startAt(gateway.place);
      await envoy.untilHealthy(gateway.place.port, gateway.place.host);
    },
    logged: () => gateways.flatMap(({ process }) => process.log.filter(({ msg }) => msg === "request")),
    /** Stops the gateways one after the other and starts a replacement for each. Resolves to the exit codes. */
    async restartInTurn(): Promise<(number | null)[]> {
      const codes: (number | null)[] = [];
      for (const gateway of gateways) {
        gateway.process.signal("SIGTERM");
        codes.push(await gateway.process.ended);
        await gateway.process.end();
        await this.startAgain(gateway);
      }
      return codes;
    },
    async end(): Promise<void> {
      await envoy.end();
      for (const { process } of gateways) await process.end();
      await engine.kill();
      certificates.remove();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
