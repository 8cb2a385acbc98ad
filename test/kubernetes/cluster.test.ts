import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { Cluster } from "../support/tools/cluster.ts";
import { type Pod, podsOf, type Resource, rendered, resourcesOf } from "../support/tools/manifests.ts";

/*
 * A real API server and the real scheduler, with hosts that exist on paper. No kubelet: nothing here shows that images
 * start, volumes mount or probes pass.
 */

const README = readFileSync(join(import.meta.dirname, "../../deploy/kubernetes/README.md"), "utf8");
const FLEETS = [...README.matchAll(/^\| `(gpus\/\S+)` \| \d+ (\w+) \| (\d+) whole, (\d+) shared \|/gm)].map(
  ([, folder = "", product = "", whole, shared]) => ({
    folder,
    product: `NVIDIA-${product}`,
    hosts: { whole: Number(whole), shared: Number(shared) },
  }),
);

let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.started();
}, 300_000);
afterAll(() => cluster?.stop());

const nameOf = (folder: string) => folder.replaceAll(/[^a-z0-9]+/g, "-");

test.each([...FLEETS.map(({ folder }) => folder), "gpu", "cpu", "monitoring", "autoscaling", "route"])(
  "%s is applied without a warning, and a second time changes nothing",
  (folder) => {
    const namespace = `applied-${nameOf(folder)}`;
    cluster.namespace(namespace);
    const text = rendered(folder);
    const applied = cluster.apply(text, "--namespace", namespace);
    expect(applied.trim().split("\n")).toHaveLength(resourcesOf(text).length);
    // It ends with 1 where there is a difference.
    expect(cluster.kubectl(["diff", "--server-side", "--namespace", namespace, "--filename", "-"], text)).toBe("");
  },
);

test("the chart is installed, upgraded, rolled back and removed", () => {
  const namespace = "by-helm";
  cluster.namespace(namespace);
  const env = { MODEL_ID: "svc-qwen", MODEL_PATH: "/models/qwen" };
  const qwen = { kind: "vllm", nodes: 2, gpus: 1, env };
  const kinds = [
    ...["deployments", "statefulsets", "services", "configmaps", "networkpolicies", "poddisruptionbudgets"],
    ...["horizontalpodautoscalers", "podmonitors", "prometheusrules", "httproutes"],
  ].join(",");
  /** Specification and data of each object, by kind and name. */
  const state = () =>
    Object.fromEntries(
      cluster
        .objects(kinds, "--namespace", namespace)
        .map(({ kind, metadata, spec, data }) => [`${kind}/${metadata.name}`, { spec, data }]),
    );
  cluster.helm("install", namespace, { engines: { qwen } });
  const first = state();
  expect(Object.keys(first)).toEqual(expect.arrayContaining(["Deployment/svc-gateway", "Deployment/qwen-engine"]));
  cluster.helm("upgrade", namespace, {
    gateway: { config: { drainGraceMs: 20_000 } },
    monitoring: { enabled: true },
    httpRoute: { enabled: true, parentRefs: [{ name: "public" }] },
    edge: { enabled: false },
    engines: { qwen: { ...qwen, nodes: 3 } },
  });
  const second = state();
  const only = (these: object, those: object) => Object.keys(these).filter((name) => !(name in those));
  expect(only(first, second).toSorted()).toEqual(
    ["ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"].map((kind) => `${kind}/svc-edge`),
  );
  expect(only(second, first)).toEqual(expect.arrayContaining(["HTTPRoute/svc-gateway", "PrometheusRule/svc"]));
  expect(second["Deployment/qwen-engine"]?.spec).toMatchObject({ replicas: 3 });
  expect(second["Deployment/svc-gateway"]).not.toEqual(first["Deployment/svc-gateway"]);
  cluster.helm("rollback", namespace, "1");
  const back = state();
  // A new Service has other addresses and ports of hosts.
  expect(only(back, first)).toEqual([]);
  for (const [name, one] of Object.entries(first))
    if (name !== "Service/svc-edge") expect([name, back[name]]).toEqual([name, one]);
  cluster.helm("uninstall", namespace);
  expect(state()).toEqual({});
});

/** The pods of engines of a fleet, replicas and ranks one by one, without their volumes of a cluster. */
function enginePods(folder: string): readonly object[] {
  return resourcesOf(rendered(folder)).flatMap((resource: Resource) => {
    const { replicas = 1, leaderWorkerTemplate: set } = (resource.spec ?? {}) as {
      readonly replicas?: number;
      readonly leaderWorkerTemplate?: { readonly size: number };
    };
    return podsOf(resource).flatMap((pod, at) => {
      if (pod.metadata.labels["app.kubernetes.io/name"] !== "svc-engine") return [];
      const volumes = pod.spec.volumes.map((one) =>
        one.persistentVolumeClaim ? { name: one.name, emptyDir: {} } : one,
      );
      const copies = set && at > 0 ? replicas * (set.size - 1) : replicas;
      return Array.from({ length: copies }, (_, copy) => ({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: `${resource.metadata.name}-${at}-${copy}`, labels: pod.metadata.labels },
        spec: { ...pod.spec, volumes },
      }));
    });
  });
}

function hostsOf(product: string, { whole, shared }: { readonly whole: number; readonly shared: number }): object[] {
  return Array.from({ length: whole + shared }, (_, at) => {
    const capacity = { cpu: "192", memory: "2Ti", pods: "110", "nvidia.com/gpu": "8", "ephemeral-storage": "4Ti" };
    const name = `host-${at}`;
    const labels = {
      ...{ "nvidia.com/gpu.product": product, "svc/host": at < whole ? "whole" : "shared" },
      "kubernetes.io/hostname": name,
    };
    const spec = { taints: [{ key: "nvidia.com/gpu", value: "present", effect: "NoSchedule" }] };
    return {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels },
      spec,
      status: { capacity, allocatable: capacity },
    };
  });
}

type Scheduled = Pod & {
  readonly spec: { readonly nodeName?: string };
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly reason?: string }[] };
};

let tries = 0;

/** Has the scheduler place pods on hosts; resolves to the pods once each has a host or none fits it. */
async function placed(pods: readonly object[], hosts: readonly object[]): Promise<readonly Scheduled[]> {
  const namespace = `placed-${++tries}`;
  const create = (objects: readonly object[]) =>
    cluster.kubectl(
      ["create", "--namespace", namespace, "--filename", "-"],
      JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }),
    );
  cluster.namespace(namespace);
  create(hosts);
  create(pods);
  let seen: readonly Scheduled[] = [];
  await becomes(async () => {
    seen = cluster.objects("pods", "--namespace", namespace) as unknown as readonly Scheduled[];
    return seen.every(
      ({ spec, status }) => spec.nodeName || status.conditions?.some(({ reason }) => reason === "Unschedulable"),
    );
  }, `placed pods; the scheduler: ${cluster.log()}`);
  // At once: there is no kubelet to end them.
  cluster.kubectl(["delete", "--raw", `/api/v1/namespaces/${namespace}/pods?gracePeriodSeconds=0`]);
  cluster.kubectl(["delete", "nodes", "--all"]);
  return seen;
}

test.each(FLEETS)("the scheduler finds a host for every pod of $folder on the documented hosts", async (fleet) => {
  const pods = enginePods(fleet.folder);
  expect(pods.length).toBeGreaterThan(8);
  for (const order of [pods, pods.toReversed()]) {
    const seen = await placed(order, hostsOf(fleet.product, fleet.hosts));
    expect(seen.filter(({ spec }) => !spec.nodeName).map(({ metadata }) => metadata)).toEqual([]);
    const models = new Map<string, string[]>();
    for (const { metadata, spec } of seen) {
      const model = metadata.labels["svc/model"] ?? "";
      models.set(model, [...(models.get(model) ?? []), spec.nodeName ?? ""]);
    }
    // A lost host leaves a model of several pods one of them.
    const together = [...models].filter(([, on]) => on.length > 1 && new Set(on).size === 1);
    expect(together).toEqual([]);
  }
  // One whole host fewer is too few for one pod.
  const short = await placed(pods, hostsOf(fleet.product, { ...fleet.hosts, whole: fleet.hosts.whole - 1 }));
  expect(short.filter(({ spec }) => !spec.nodeName)).toHaveLength(1);
});
