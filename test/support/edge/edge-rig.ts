import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Certificates } from "../certificates.ts";
import { freePort } from "../free-port.ts";
import { EngineProcess } from "../processes/engine-process.ts";
import { FleetProcess } from "../processes/fleet-process.ts";
import { createKey } from "../processes/key-command.ts";
import type { Edge } from "./edge-caller.ts";
import { startEnvoy } from "./envoy-process.ts";

/** The ports of a gateway, which it keeps after a restart. */
type Place = { readonly port: number; readonly healthPort: number; readonly grpcPort: number };

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

export type EdgeRig = Awaited<ReturnType<typeof startEdge>>;

/**
 * Starts an engine, two gateways with shipped timeouts, and Envoy in front with the shipped configuration. `backend` holds
 * the settings of the simulator. Resolves when Envoy considers all gateways healthy.
 */
export async function startEdge(backend: object) {
  const folder = mkdtempSync(join(tmpdir(), "svc-behind-"));
  const keyFile = join(folder, "keys.json");
  const key = await createKey(keyFile);
  const certificates = edgeCertificates();
  const grpcTls = { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") };
  const engine = await EngineProcess.start("behind", backend);
  const startAt = async ({ port, healthPort, grpcPort }: Place) => {
    const config = {
      listen: { port },
      admin: { port: 0 },
      health: { port: healthPort },
      grpc: { port: grpcPort, tls: grpcTls },
      keys: { file: keyFile },
      clusters: [{ model: "svc-qwen", endpoints: [{ address: engine.address }] }],
      xffNumTrustedHops: 1,
    };
    return (await FleetProcess.start("gateway/main.js", config)).process;
  };
  const start = async () => {
    const place = { port: await freePort(), healthPort: await freePort(), grpcPort: await freePort() };
    return { place, process: await startAt(place) };
  };
  const gateways = await Promise.all([start(), start()]);
  const places = gateways.map(({ place }) => place);
  const envoy = await startEnvoy(places, certificates);
  const edge: Edge = { port: envoy.port, ca: readFileSync(certificates.file("authority.pem")), key };
  return {
    ...{ edge, engine, envoy, certificates, places },
    logged: () => gateways.flatMap(({ process }) => process.log.filter(({ msg }) => msg === "request")),
    /** Stops the gateways one after the other and starts a replacement for each. Resolves to the exit codes. */
    async restartInTurn(): Promise<(number | null)[]> {
      const codes: (number | null)[] = [];
      for (const gateway of gateways) {
        gateway.process.signal("SIGTERM");
        codes.push(await gateway.process.ended);
        await gateway.process.end();
        gateway.process = await startAt(gateway.place);
        await envoy.untilHealthy(gateway.place.port);
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
