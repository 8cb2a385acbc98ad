import { copyFileSync, writeFileSync } from "node:fs";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { followTls } from "../../../deploy/runtime/grpc/server-tls.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import { ClusterManager } from "../../../gateway/upstream/cluster/cluster-manager.ts";
import { type TlsSettings, UpstreamTls } from "../../../gateway/upstream/endpoint/upstream-tls.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../support/certificates.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { startNode } from "../../support/engine/start-node.ts";
import { FrontRig } from "../../support/gateway/front-rig.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

let certificates: Certificates;
const file = (name: string) => certificates.file(name);

beforeAll(() => {
  certificates = new Certificates();
  if (!HAS_OPENSSL) return;
  for (const name of ["authority", "stranger"]) certificates.authority(name);
  certificates.signed("node", "authority");
  certificates.signed("elsewhere", "authority", "DNS:elsewhere.test");
  certificates.signed("gateway", "authority");
  certificates.signed("renewed", "authority");
  certificates.signed("intruder", "stranger");
});
afterAll(() => certificates.remove());

const pair = (name: string) => ({ certFile: file(`${name}.pem`), keyFile: file(`${name}.key`) });
const trusting = (name: string) => ({ caFile: file(`${name}.pem`) });

/** A node that requires certificates of the authority. */
async function node(name = "node"): Promise<string> {
  const files = { ...pair(name), clientCaFile: file("authority.pem") };
  const tls = followTls(files, new VirtualClock(), pino({ enabled: false }));
  const running = await startNode(fastSimulator(), { tls });
  onTestFinished(() => tls.close());
  onTestFinished(() => running.stop());
  return running.address.replace("127.0.0.1", "localhost");
}

function inFrontOf(address: string, tls: object | undefined): FrontRig {
  const rig = new FrontRig([address], { cluster: { tls, circuitBreakers: { noEndpointHoldMs: 0 } } });
  onTestFinished(() => rig.close());
  return rig;
}

describe("with the right certificates on both sides", () => {
  test("health, load reports, description and calls all go over the secured connection", async ({ skip }) => {
    skip(!HAS_OPENSSL, NO_OPENSSL);
    const rig = inFrontOf(await node(), { ...trusting("authority"), ...pair("gateway") });
    await rig.ready();
    expect(await rig.send().outcome).toBe("ok");
    const [member] = rig.cluster.members;
    expect(member?.healthFailure).toBeUndefined();
    expect(member?.slots).toBeGreaterThan(1);
    await until(() => member?.endpoint.report.isFresh(rig.clock.nowMs()) === true, "it reports its load");
    // The other wire does not have it.
    const ends = member?.endpoint.wire.peerEndsMs;
    if (process.env.SVC_TEST_WIRE === undefined) expect(ends).toBeGreaterThan(Date.now());
  });

  test("an endpoint whose certificate is for another name is accepted under that name", async ({ skip }) => {
    skip(!HAS_OPENSSL, NO_OPENSSL);
    const tls = { ...trusting("authority"), ...pair("gateway"), serverName: "elsewhere.test" };
    await inFrontOf(await node("elsewhere"), tls).ready();
  });
});

test("an endpoint found by its name is accepted under that name", async ({ skip }) => {
  skip(!HAS_OPENSSL, NO_OPENSSL);
  const port = (await node("elsewhere")).split(":")[1];
  const tls = { ...trusting("authority"), ...pair("gateway") };
  const cluster = { model: "svc-qwen", type: "strict_dns", address: `elsewhere.test:${port}`, tls };
  const { clusters } = checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters: [cluster] }, "test");
  const log = pino({ level: "silent" });
  const manager = new ClusterManager(clusters, new VirtualClock(), log, { resolve: async () => ["127.0.0.1"] });
  onTestFinished(() => manager.close());
  await until(() => manager.ready, "it is healthy");
});

describe("an endpoint stays unhealthy, and operators see the reason", () => {
  test.for([
    {
      what: "its certificate is signed by another authority",
      tls: () => ({ ...trusting("stranger"), ...pair("gateway") }),
      why: "its certificate is not signed by the authority in tls.caFile",
    },
    {
      what: "its certificate is for another name",
      node: "elsewhere",
      tls: () => ({ ...trusting("authority"), ...pair("gateway") }),
      why: "its certificate is for another name: see tls.serverName",
    },
    {
      what: "the gateway has no certificate",
      tls: () => trusting("authority"),
      why: /certificate: see tls.certFile|while it is set up: see tls/,
    },
    {
      what: "the gateway's certificate is not its authority's",
      tls: () => ({ ...trusting("authority"), ...pair("intruder") }),
      why: /refuses the certificate in tls.certFile|while it is set up: see tls/,
    },
    { what: "the gateway speaks plain text", tls: () => undefined, why: /while it is set up: see tls/ },
  ])(
    "an endpoint stays unhealthy, and operators see the reason: $what",
    async ({ node: name = "node", tls, why, ...rest }, { skip }) => {
      skip(!HAS_OPENSSL, NO_OPENSSL);
      const rig = inFrontOf(await node(name), tls());
      const [member] = rig.cluster.members;
      await until(() => member?.healthFailure !== undefined, `a reason, as ${rest.what}`);
      expect(member?.healthFailure).toMatch(why);
      expect(member?.healthText(rig.clock.nowMs())).toBe("/failed_active_hc");
      expect(await rig.send().outcome).toBe("no_healthy_upstream");
    },
  );
});

describe("certificates that change", () => {
  const inUse = () => ({ certFile: file("in-use.pem"), keyFile: file("in-use.key") });
  const use = (name: string) => {
    for (const kind of ["pem", "key"]) copyFileSync(file(`${name}.${kind}`), file(`in-use.${kind}`));
  };

  test("certificates that change apply to new connections", async ({ skip }) => {
    skip(!HAS_OPENSSL, NO_OPENSSL);
    use("intruder");
    const rig = inFrontOf(await node(), { ...trusting("authority"), ...inUse() });
    const [member] = rig.cluster.members;
    await until(() => member?.healthFailure !== undefined, "it is refused");
    use("gateway");
    await until(() => {
      void rig.clock.advance(500);
      return rig.cluster.healthyEndpoints.length === 1;
    }, "the new certificate is shown");
    expect(await rig.send().outcome).toBe("ok");
  });

  test("certificates that change are reported once each time: accepted, or why not; a bad pair changes nothing", async ({
    skip,
  }) => {
    skip(!HAS_OPENSSL, NO_OPENSSL);
    use("gateway");
    const clock = new VirtualClock();
    const reported: (string | undefined)[] = [];
    const settings: TlsSettings = { ...trusting("authority"), ...inUse() };
    const tls = new UpstreamTls({ settings, path: "clusters.0.tls", clock, onReload: (fault) => reported.push(fault) });
    onTestFinished(() => tls.close());
    const becomes = (count: number) =>
      until(() => {
        void clock.advance(500);
        return reported.length === count;
      }, `reported ${count} times`);
    copyFileSync(file("renewed.pem"), file("in-use.pem"));
    await becomes(1);
    use("renewed");
    await becomes(2);
    writeFileSync(file("in-use.key"), "nonsense");
    await becomes(3);
    const caller = new NodeClient(await node(), tls.credentials);
    onTestFinished(() => caller.close());
    expect((await caller.generate(generateRequest()).ended).code).toBe(0);
    use("renewed");
    await becomes(4);
    const bad = "clusters.0.tls: certificate, key and authority do not fit together or are not PEM";
    expect(reported).toEqual([bad, undefined, bad, undefined]);
  });

  test("changing certificates that are unusable at the start are named by their key", ({ skip }) => {
    skip(!HAS_OPENSSL, NO_OPENSSL);
    const start = (tls: object) => () => inFrontOf("localhost:1", tls);
    expect(start({ caFile: file("none.pem") })).toThrow("clusters.0.tls.caFile: cannot be read");
    const [cert, key] = [pair("gateway").certFile, pair("node").keyFile];
    expect(start({ ...trusting("authority"), certFile: cert, keyFile: key })).toThrow(
      "clusters.0.tls: certificate, key",
    );
  });
});
