import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { becomes } from "../../support/becomes.ts";
import { DnsServer, whyNoOwnResolver } from "../../support/dns-server.ts";
import { type Edge, Http2Caller } from "../../support/edge/edge-caller.ts";
import { edgeCertificates } from "../../support/edge/edge-rig.ts";
import { type EnvoyProcess, HAS_ENVOY, NO_ENVOY, startEnvoyAs } from "../../support/edge/envoy-process.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { EngineProcess } from "../../support/processes/engine-process.ts";
import { FleetProcess } from "../../support/processes/fleet-process.ts";
import { createKey } from "../../support/processes/key-command.ts";
import { endKindsOf, openStreams } from "../../support/processes/open-streams.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { configFile, noKustomize, podsOf, rendered, resourcesOf } from "../../support/tools/manifests.ts";

/*
 * The edge of deploy/kubernetes: Envoy and gateways with the rendered configurations. A name server of the test serves
 * the headless Service as cluster DNS does, and each gateway has its own address with the shipped ports, as pods have.
 */

const missing = [whyNoOwnResolver(), HAS_ENVOY ? "" : NO_ENVOY, noKustomize].filter(Boolean).join(", ");

/** Addresses of this process only: two tests may run at a time. */
const [high, low] = [Math.floor(process.pid / 256) % 64, process.pid % 256];
const addressOf = (host: number) => `127.${high + 192}.${low}.${host}`;
const DOMAIN = "fleet.svc.cluster.local";
const CLUSTERS = [
  ["gateways", 8080],
  ["gateways_grpc", 50050],
] as const;

const closing: (() => unknown)[] = [];
const resources = noKustomize === "" ? resourcesOf(rendered("cpu")) : [];
const podOf = (name: string) => {
  const pod = resources.flatMap(podsOf).find(({ metadata }) => metadata.labels["app.kubernetes.io/name"] === name);
  if (!pod) throw new Error(`there is no ${name}`);
  return pod;
};

let dns: DnsServer;
let envoy: EnvoyProcess;
let edge: Edge;
let startGateway: (host: string) => Promise<FleetProcess>;

beforeAll(async () => {
  if (missing !== "") return;
  const folder = mkdtempSync(join(tmpdir(), "svc-headless-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const keys = { file: join(folder, "keys.json") };
  const key = await createKey(keys.file, "--name", "first", "--models", "all");
  const certificates = edgeCertificates();
  closing.push(() => certificates.remove());
  const engine = await EngineProcess.start("behind", { tokensPerSecond: 10, answerTokens: { min: 30, max: 30 } });
  closing.push(() => engine.kill());
  startGateway = async (host) => {
    const config = parse(configFile(resources, podOf("svc-gateway"), "gateway.yaml"));
    for (const listener of ["listen", "health", "grpc"]) config[listener].host = host;
    config.grpc.tls = { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") };
    const clusters = [{ model: "svc-qwen", endpoints: [{ address: engine.address }] }];
    Object.assign(config, { keys, clusters, admin: { port: 0 }, state: undefined, sealingKeyFile: undefined });
    const { process } = await FleetProcess.start("gateway/main.js", config);
    closing.push(() => process.end());
    return process;
  };
  const hosts = [addressOf(1), addressOf(2)];
  await Promise.all(hosts.map(startGateway));
  dns = await DnsServer.start(addressOf(253), DOMAIN);
  closing.push(() => dns.stop());
  dns.only = `gateway.${DOMAIN}`;
  dns.answer = hosts;
  envoy = await startEnvoyAs(configFile(resources, podOf("svc-edge"), "envoy.yaml"), certificates, dns.through, {
    // Load balancers of the test react at once.
    graceS: 0,
  });
  closing.push(() => envoy.end());
  edge = { port: envoy.port, ca: readFileSync(certificates.file("authority.pem")), key };
});
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

async function untilHealthy(host: string): Promise<void> {
  for (const [cluster, port] of CLUSTERS) await envoy.untilHealthy(port, host, cluster);
}

describe.skipIf(missing !== "")(`Envoy with the rendered configuration of Kubernetes (${missing})`, () => {
  test("Envoy with the rendered configuration of Kubernetes finds two gateways healthy by the headless name, and one that comes, and all of them answer", async () => {
    await untilHealthy(addressOf(1));
    await untilHealthy(addressOf(2));
    await startGateway(addressOf(3));
    dns.answer = [1, 2, 3].map(addressOf);
    await untilHealthy(addressOf(3));
    const caller = new Http2Caller(edge);
    const reached = () => new Set(envoy.log.map(({ upstream }) => upstream));
    await becomes(async () => {
      const body = { model: "svc-qwen", messages: [{ role: "user", content: "hello" }], max_tokens: 2 };
      expect((await caller.post("/v1/chat/completions", body)).status).toBe(200);
      return [1, 2, 3].every((host) => reached().has(`${addressOf(host)}:8080`));
    }, "each gateway has had a request");
    caller.close();
    const credential = { authorization: `Bearer ${edge.key}` };
    const client = new NodeClient(`127.0.0.1:${edge.port}`, credentials.createSsl(edge.ca), credential);
    expect(await client.generate(generateRequest({ maxOutputTokens: 3 })).ended).toMatchObject({ code: 0 });
    client.close();
  });

  test("Envoy with the rendered configuration of Kubernetes fails its readiness before it ends, and lets its answers run out", async () => {
    const health = async (path: string) => (await fetch(`http://127.0.0.1:${envoy.healthPort}${path}`)).status;
    expect([await health("/readyz"), await health("/healthz")]).toEqual([200, 200]);
    const caller = new Http2Caller(edge);
    const streams = await openStreams(caller, 3);
    const [container] = podOf("svc-edge").spec.containers;
    expect(container?.command?.slice(2)).toEqual([
      "bash",
      "/etc/envoy/edge.sh",
      "envoy",
      "-c",
      "/etc/envoy/envoy.yaml",
    ]);
    let hasEnded = false;
    const ended = envoy.ended.finally(() => {
      hasEnded = true;
    });
    envoy.signal("SIGTERM");
    await becomes(async () => (await health("/readyz")) === 503, "the pod is not ready");
    expect(await health("/healthz")).toBe(200);
    // The script polls every second: many deltas later it has polled, and still waits.
    for (const { body } of streams) {
      const seen = body.text().length;
      await body.until((text) => text.length > seen + 1_000);
    }
    expect(hasEnded).toBe(false);
    expect(await endKindsOf(streams)).toEqual(streams.map(() => "complete"));
    expect(await ended).toBe(0);
    caller.close();
  });
});
