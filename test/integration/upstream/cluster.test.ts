import { pino } from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import type { Cluster } from "../../../gateway/upstream/cluster/cluster.ts";
import { ClusterManager } from "../../../gateway/upstream/cluster/cluster-manager.ts";
import { HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/grpc/health/v1/health.ts";
import { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import { until } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const MODELS = ["svc-qwen", "svc-glm53"];
const SHUTDOWN = 4;

async function node(models: readonly string[] = MODELS): Promise<HealthNode> {
  const started = await HealthNode.start({ models });
  onTestFinished(() => started.stop());
  return started;
}

/** Clusters as configured, in virtual time. */
class Managed {
  readonly clock = new VirtualClock();
  readonly manager: ClusterManager;
  /** The addresses that DNS returns for each host. */
  readonly names: Record<string, readonly string[]> = {};
  readonly log: Record<string, unknown>[] = [];

  constructor(clusters: readonly object[], names: Readonly<Record<string, readonly string[]>> = {}) {
    Object.assign(this.names, names);
    const config = checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters }, "test");
    const log = pino({ base: null }, { write: (line) => this.log.push(JSON.parse(line)) });
    const resolve = async (host: string) => this.names[host] ?? [];
    this.manager = new ClusterManager(config.clusters, this.clock, log, { resolve, random: () => 0.5 });
    onTestFinished(() => this.manager.close());
  }

  cluster(model = "svc-qwen"): Cluster {
    const found = this.manager.cluster(model);
    if (!found) throw new Error(`no cluster of ${model}`);
    return found;
  }

  health(address: string, model = "svc-qwen"): string | undefined {
    return this.cluster(model).member(address)?.healthText(this.clock.nowMs());
  }

  async becomes(address: string, health: string, model = "svc-qwen"): Promise<void> {
    await until(() => this.health(address, model) === health, `${address} is ${health}`);
  }

  view(address: string, model = "svc-qwen") {
    return this.cluster(model).endpointSet.get(address);
  }
}

/** One node, and a cluster in front of it in which it is healthy. */
async function oneNode(more: object = {}) {
  const one = await node();
  const managed = new Managed([{ model: "svc-qwen", endpoints: [{ address: one.address, ...more }] }]);
  await managed.becomes(one.address, "healthy");
  return { one, managed };
}

test("a node that serves several models is one endpoint, with a health of its own for each model", async () => {
  const one = await node(["svc-qwen"]);
  const managed = new Managed(MODELS.map((model) => ({ model, endpoints: [{ address: one.address }] })));
  await managed.becomes(one.address, "healthy");
  await managed.becomes(one.address, "/version_mismatch", "svc-glm53");
  expect(managed.manager.endpoints).toHaveLength(1);
  expect(managed.cluster("svc-glm53").endpoints).toEqual(managed.cluster().endpoints);
  expect(managed.cluster("svc-glm53").healthyEndpoints).toEqual([]);
  expect(managed.manager.ready).toBe(true);
});

describe("health is printed as Envoy does", () => {
  test("an endpoint without a result yet has failed active health checking", () => {
    const managed = new Managed([{ model: "svc-qwen", endpoints: [{ address: "127.0.0.1:1" }] }]);
    expect(managed.health("127.0.0.1:1")).toBe("/failed_active_hc");
    expect(managed.manager.ready).toBe(false);
  });

  test("an ejected endpoint has failed the outlier check until its time is up", async () => {
    const { one, managed } = await oneNode();
    const { outliers } = managed.cluster();
    for (let failure = 0; failure < 5; failure += 1) outliers.report(one.address, "failure", 0);
    expect(managed.health(one.address)).toBe("/failed_outlier_check");
    expect(managed.view(one.address)?.ejected).toBe(true);
    expect(managed.cluster().healthyEndpoints).toEqual([]);
    await managed.clock.advance(15_000);
    expect(managed.health(one.address)).toBe("healthy");
    expect(managed.view(one.address)?.healthySinceMs).toBe(15_000);
  });

  test("several reasons are listed in order", async () => {
    const { one, managed } = await oneNode();
    managed.manager.setDrained(new Set([one.address]));
    expect(managed.health(one.address)).toBe("/draining");
    one.setStatus(Serving.NOT_SERVING);
    await managed.becomes(one.address, "/failed_active_hc/draining");
  });

  test("a node that reports draining is draining while the report is fresh", async () => {
    const { one, managed } = await oneNode();
    const draining = OrcaLoadReport.fromPartial({ namedMetrics: { "svc.draining": 1 } });
    managed.cluster().endpoints[0]?.report.set(draining, managed.clock.nowMs());
    expect(managed.health(one.address)).toBe("/draining");
    expect(managed.view(one.address)?.draining).toBe(true);
    await managed.clock.advance(10_000);
    expect(managed.health(one.address)).toBe("healthy");
  });

  test("the first health is logged, and each change, but no check that changes nothing", async () => {
    const { one, managed } = await oneNode();
    const ill = await node();
    ill.setStatus(Serving.NOT_SERVING);
    const two = new Managed([{ model: "svc-qwen", endpoints: [{ address: ill.address }] }]);
    one.setStatus(Serving.NOT_SERVING);
    await managed.becomes(one.address, "/failed_active_hc");
    await until(() => two.log.length > 0, "the first health is logged");
    const { checks } = one;
    await until(() => {
      void managed.clock.advance(1_200);
      return one.checks > checks + 1;
    }, "more checks");
    const logged = ({ log }: Managed) =>
      log.flatMap(({ msg, health }) => (msg === "endpoint health changed" ? [health] : []));
    expect([managed, two].map(logged)).toEqual([["healthy", "/failed_active_hc"], ["/failed_active_hc"]]);
  });
});

describe("a view", () => {
  test("a view combines discovery, the node's reports and the gateway's own counts", async () => {
    const { one, managed } = await oneNode({ loadBalancingWeight: 3 });
    const [found] = managed.cluster().endpoints;
    found?.report.set(
      OrcaLoadReport.fromPartial({
        namedMetrics: {
          "svc.running": 2,
          "svc.waiting": 1,
          "svc.queued_uncached_tokens": 700,
          "svc.prefill_tokens_per_second": 9_000,
        },
        utilization: { kv_cache: 0.5 },
      }),
      managed.clock.nowMs(),
    );
    managed.manager.work.change(one.address, 400);
    const [member] = managed.cluster().members;
    member?.beginCall(false);
    expect(managed.view(one.address)).toMatchObject({
      address: one.address,
      healthy: true,
      compatible: true,
      draining: false,
      ejected: false,
      activeRequests: 1,
      running: 2,
      waiting: 1,
      kvUse: 0.5,
      slots: 4,
      weight: 3,
      healthySinceMs: undefined,
      outstandingPrefillTokens: 700,
      prefillTokensPerSecond: 9_000,
    });
    member?.endCall(false);
    managed.manager.work.change(one.address, 1_000);
    expect(managed.view(one.address)).toMatchObject({ activeRequests: 0, outstandingPrefillTokens: 1_400 });
  });

  test("a view shares the outstanding tokens of an engine among its ranks", async () => {
    const one = await node();
    one.dataParallelRanks = 4;
    const managed = new Managed([{ model: "svc-qwen", endpoints: [{ address: one.address }] }]);
    await managed.becomes(one.address, "healthy");
    managed.manager.work.change(one.address, 1_000);
    expect(managed.view(one.address)?.outstandingPrefillTokens).toBe(250);
  });

  test("a view starts slow start for an endpoint that comes back, not for one that was healthy from the beginning", async () => {
    const { one, managed } = await oneNode();
    expect(managed.view(one.address)?.healthySinceMs).toBeUndefined();

    one.setStatus(Serving.NOT_SERVING);
    await managed.becomes(one.address, "/failed_active_hc");
    one.setStatus(Serving.SERVING);
    await until(() => {
      void managed.clock.advance(1_000);
      return managed.health(one.address) === "healthy";
    }, "the endpoint to come back");
    expect(managed.view(one.address)?.healthySinceMs).toBeGreaterThan(0);
  });
});

describe("endpoints that leave and join", () => {
  /** Addresses of the loopback net, all on the port of one node. */
  async function byName() {
    const one = await node();
    const managed = new Managed(
      MODELS.map((model) => ({ model, type: "strict_dns", address: `engines:${one.port}` })),
      { engines: ["127.0.0.1"] },
    );
    await managed.becomes(one.address, "healthy");
    return { one, managed };
  }

  async function answered(managed: Managed, addresses: readonly string[]): Promise<void> {
    managed.names.engines = addresses;
    await managed.clock.advance(1_000);
  }

  test("a removed endpoint gets no new calls, and keeps its channel until its calls have ended", async () => {
    const { one, managed } = await byName();
    const [member] = managed.cluster().members;
    const leaving = member?.endpoint;
    member?.beginCall(false);
    member?.beginCall(false);
    await answered(managed, ["127.0.0.9"]);
    expect(managed.cluster().endpoints.map(({ address }) => address)).toEqual([`127.0.0.9:${one.port}`]);
    expect(managed.cluster().outliers.ejectedUntilMs(one.address)).toBeUndefined();
    const channel = leaving?.client.getChannel();
    expect(managed.manager.endpoints).toContain(leaving);
    member?.endCall(false);
    expect(channel?.getConnectivityState(false)).not.toBe(SHUTDOWN);
    member?.endCall(false);
    expect(channel?.getConnectivityState(false)).toBe(SHUTDOWN);
    expect(managed.manager.endpoints).not.toContain(leaving);
  });

  test("one that died is lost until another joins; one that had announced it, or still serves, is not", async () => {
    const one = await HealthNode.start({ models: MODELS, host: "0.0.0.0" });
    onTestFinished(() => one.stop());
    const [stays, leaves, joins] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
    const managed = new Managed([{ model: "svc-qwen", type: "strict_dns", address: `engines:${one.port}` }], {
      engines: [stays, leaves],
    });
    const counts = () => [managed.cluster().remembered.lost, managed.cluster().remembered.left];
    const both = async () => {
      for (const host of [stays, leaves])
        await until(() => {
          void managed.clock.advance(500);
          return managed.health(`${host}:${one.port}`) === "healthy";
        }, `${host} is healthy`);
    };
    await both();
    await answered(managed, [stays]);
    expect(counts()).toEqual([0, 1]);
    await answered(managed, [stays, leaves]);
    expect(counts()).toEqual([0, 0]);
    await both();
    one.setStatus(Serving.NOT_SERVING);
    await managed.becomes(`${leaves}:${one.port}`, "/failed_active_hc");
    await answered(managed, [stays]);
    expect(counts()).toEqual([0, 1]);
    one.setStatus(Serving.SERVING);
    await answered(managed, [stays, leaves]);
    await both();
    one.stop();
    await until(() => managed.cluster().members.every(({ endpoint }) => !endpoint.connected), "it is gone");
    await answered(managed, [stays]);
    expect(counts()).toEqual([1, 0]);
    await answered(managed, [stays, joins]);
    expect(counts()).toEqual([0, 0]);
  });

  test("an endpoint that returns while its calls still run is the same one", async () => {
    const { one, managed } = await byName();
    const [member] = managed.cluster().members;
    const leaving = member?.endpoint;
    member?.beginCall(false);
    await answered(managed, ["127.0.0.9"]);
    await answered(managed, ["127.0.0.1"]);
    expect(managed.cluster().endpoints).toEqual([leaving]);
    member?.endCall(false);
    expect(leaving?.client.getChannel().getConnectivityState(false)).not.toBe(SHUTDOWN);
    await managed.becomes(one.address, "healthy");
    expect(managed.view(one.address)?.healthySinceMs).toBe(managed.clock.nowMs());
  });

  test("a remaining endpoint keeps its health, and its watch, when others join and leave", async () => {
    const { one, managed } = await byName();
    await managed.becomes(one.address, "healthy", "svc-glm53");
    const { watches } = one;
    await answered(managed, ["127.0.0.1", "127.0.0.9"]);
    expect(managed.cluster().members).toHaveLength(2);
    await answered(managed, ["127.0.0.1"]);
    expect([managed.health(one.address), one.watches]).toEqual(["healthy", watches]);
  });

  test("views and listeners follow the members", async () => {
    const { one, managed } = await byName();
    let changes = 0;
    const stop = managed.cluster().onMembersChange(() => {
      changes += 1;
    });
    const addresses = () => [...managed.cluster().endpointSet].map(({ address }) => address);
    expect(addresses()).toEqual([one.address]);
    await answered(managed, ["127.0.0.1", "127.0.0.9"]);
    expect(addresses().sort()).toEqual([one.address, `127.0.0.9:${one.port}`].sort());
    expect(changes).toBe(1);
    await answered(managed, ["127.0.0.1", "127.0.0.9"]);
    expect(changes).toBe(1);
    stop();
    await answered(managed, ["127.0.0.1"]);
    expect(changes).toBe(1);
  });
});

test("closing ends all channels", async () => {
  const { managed } = await oneNode();
  const [member] = managed.cluster().members;
  const found = member?.endpoint;
  member?.beginCall(false);
  managed.manager.close();
  expect(found?.client.getChannel().getConnectivityState(false)).toBe(SHUTDOWN);
  expect(managed.manager.endpoints).toEqual([]);
});
