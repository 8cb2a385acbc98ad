import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, parseDocument } from "yaml";
import { proberConfigSchema } from "../../deploy/prober/config.ts";
import { checkConfig, fillFromEnvironment } from "../../deploy/runtime/config/load-config.ts";
import { HAND_OVER_TTL_MS } from "../../engine/backends/openai-compatible/hand-over/hand-overs.ts";
import { kvSource } from "../../engine/backends/openai-compatible/kv-events/kv-source.ts";
import { engineConfigSchema } from "../../engine/config.ts";
import { loadProfile } from "../../engine/profiles/profile.ts";
import { gatewayConfigSchema } from "../../gateway/config.ts";
import {
  configFile,
  containersOf,
  dataOf,
  faultsOf,
  type Labels,
  noKustomize,
  noValidation,
  type Pod,
  podsOf,
  type Resource,
  rendered,
  renderedBeside,
  resourcesOf,
  selects,
} from "../support/tools/manifests.ts";
import { portFaults } from "../support/tools/ports.ts";

const FLEETS = ["gpus/h200", "gpus/h200-pairs", "gpus/b200", "gpus/b300", "gpu", "cpu"];

function checked<T extends Parameters<typeof checkConfig>[0]>(schema: T, text: string, env: Labels) {
  const document = parseDocument(text);
  expect(fillFromEnvironment(document, { ...env, POD_NAME: "pod-1" })).toEqual([]);
  return checkConfig(schema, document.toJS(), "config");
}

/** A pod of an engine with its GPUs and its node selector. */
type OnGpus = { readonly gpus: number; readonly product: string; readonly host: string };

/** Returns every pod with GPUs of a rendered fleet, replicas and ranks one by one. */
function onGpus(resources: readonly Resource[]): readonly OnGpus[] {
  return resources.flatMap((resource) => {
    const { replicas = 1, leaderWorkerTemplate: set } = (resource.spec ?? {}) as {
      readonly replicas?: number;
      readonly leaderWorkerTemplate?: { readonly size: number };
    };
    return podsOf(resource).flatMap((pod, at) => {
      const gpus = containersOf(pod).reduce(
        (sum, { resources: asked }) => sum + Number(asked?.limits?.["nvidia.com/gpu"] ?? 0),
        0,
      );
      const { "nvidia.com/gpu.product": product = "", "svc/host": host = "" } = pod.spec.nodeSelector ?? {};
      const copies = set && at > 0 ? replicas * (set.size - 1) : replicas;
      return gpus === 0 ? [] : Array.from({ length: copies }, () => ({ gpus, product, host }));
    });
  });
}

/** Whether every pod fits on hosts of eight GPUs, in any order and placement of a scheduler. */
function fitsInAnyOrder(pods: readonly number[], free: readonly number[], seen = new Set<string>()): boolean {
  const state = JSON.stringify([pods, free.toSorted()]);
  if (seen.has(state)) return true;
  seen.add(state);
  return [...new Set(pods)].every((gpus) => {
    const at = pods.indexOf(gpus);
    const places = free.flatMap((room, host) => (room >= gpus ? [host] : []));
    const rest = pods.toSpliced(at, 1);
    return (
      places.length > 0 && places.every((host) => fitsInAnyOrder(rest, free.with(host, (free[host] ?? 0) - gpus), seen))
    );
  });
}

const README = readFileSync(join(import.meta.dirname, "../../deploy/kubernetes/README.md"), "utf8");

test("the prober's configuration is one that it takes", () => {
  const text = readFileSync(join(import.meta.dirname, "../../deploy/kubernetes/prober/prober.yaml"), "utf8");
  expect(checked(proberConfigSchema, text, {})).toMatchObject({ model: "svc-qwen", limit: { rpm: 7 } });
});

describe.skipIf(noKustomize !== "")("the manifests", () => {
  test.skipIf(noValidation !== "")(
    "the manifests match the schemas of Kubernetes and its extensions",
    { timeout: 300_000 },
    () => {
      const folders = [...FLEETS, "prefill", "monitoring", "autoscaling", "engines/sglang-multihost"];
      const called =
        "resources: [svc/deploy/kubernetes/monitoring]\ncomponents: [svc/deploy/kubernetes/monitoring/receiver]\n";
      const proven = "resources: [svc/deploy/kubernetes/cpu]\ncomponents: [svc/deploy/kubernetes/prober]\n";
      const whole = [...folders.map(rendered), renderedBeside(called), renderedBeside(proven)].join("\n---\n");
      expect(whole).toContain("kind: AlertmanagerConfig");
      expect(whole).toContain("name: svc-prober");
      expect(faultsOf(whole)).toBe("");
    },
  );

  test.skipIf(noValidation !== "")("the manifests are judged strictly, custom resources too", () => {
    const text = rendered("gpus/h200")
      .replace("startupPolicy:", "startPolicy:")
      .replaceAll("maxUnavailable: 0", "maxUnavailabe: 0")
      .replace("clusterIP: None", "clusterIP: [1]");
    const faults = faultsOf(text);
    for (const fault of ["startPolicy", "maxUnavailabe", "clusterIP"]) expect(faults).toContain(fault);
  });

  test.each(FLEETS.filter((folder) => folder.startsWith("gpus/")))(
    "of %s request the documented GPUs, and find them host by host",
    (folder) => {
      const pods = onGpus(resourcesOf(rendered(folder)));
      const row = new RegExp(`^\\| \`${folder}\` \\| (\\d+) (\\w+) \\| (\\d+) whole, (\\d+) shared \\|`, "m");
      const [, sum, kind, whole = 0, shared = 0] = row.exec(README) ?? [];
      const hosts = { whole: Number(whole), shared: Number(shared) };
      expect(new Set(pods.map(({ product }) => product))).toEqual(new Set([`NVIDIA-${kind}`]));
      expect(pods.reduce((total, { gpus }) => total + gpus, 0)).toBe(Number(sum));
      const on = (host: string) => pods.filter((pod) => pod.host === host).map(({ gpus }) => gpus);
      expect(on("whole")).toEqual(Array.from({ length: hosts.whole }, () => 8));
      expect(
        fitsInAnyOrder(
          on("shared"),
          Array.from({ length: hosts.shared }, () => 8),
        ),
      ).toBe(true);
      expect(on("whole").length + on("shared").length).toBe(pods.length);
      if (folder.startsWith("gpus/h200")) expect(hosts.whole + hosts.shared).toBe(8);
    },
  );

  test("the manifests of one GPU give it to a node of the image for CUDA, which does not start without it", () => {
    const resources = resourcesOf(rendered("gpu"));
    const nodes = resources.flatMap(podsOf).filter(({ metadata }) => metadata.labels["svc/role"] === "node");
    const gpus = nodes.flatMap(containersOf).map(({ image, envFrom, resources: asked }) => ({
      image,
      gpus: asked?.limits?.["nvidia.com/gpu"],
      gpu: dataOf(resources, envFrom?.[0]?.configMapRef.name).GPU,
    }));
    expect(gpus).toEqual([{ image: "registry.example/svc-engine:0.1.0-llama-cuda", gpus: "1", gpu: "cuda" }]);
    expect(onGpus(resources)).toHaveLength(1);
  });

  test.skipIf(noValidation !== "")(
    "of the page's own kustomization are valid, with a remedy for requests beyond the fleet",
    () => {
      const [, own = ""] = /^```yaml\n(# kustomization\.yaml[\s\S]+?)^```$/m.exec(README) ?? [];
      const text = renderedBeside(own);
      const resources = resourcesOf(text);
      expect(faultsOf(text)).toBe("");
      expect(portFaults(resources)).toEqual([]);
      expect(text).not.toContain("registry.example");
      const policy = resources.find(
        ({ kind, metadata }) => kind === "NetworkPolicy" && metadata.name === "svc-gateway",
      );
      const { egress = [] } = (policy?.spec ?? {}) as {
        readonly egress?: readonly { readonly to?: unknown; readonly ports: readonly { readonly port: number }[] }[];
      };
      const ports = egress.flatMap(({ ports: some }) => some.map(({ port }) => port));
      expect(ports).toEqual(expect.arrayContaining([6379, 4318, 443]));
      // Only DNS may have any destination.
      const open = egress.filter(({ to }) => to === undefined).map(({ ports: some }) => some.map(({ port }) => port));
      expect(open).toEqual([[53, 53, 5353, 5353]]);
      const engines = resources
        .flatMap(podsOf)
        .flatMap(containersOf)
        .filter(({ name }) => ["vllm", "sglang"].includes(name));
      const ranks = engines.filter(({ resources: asked }) => asked?.limits?.["rdma/ib"] === "1");
      expect(ranks.map(({ name }) => name)).toEqual(["sglang", "sglang", "vllm", "vllm"]);
      for (const { securityContext, env } of ranks) {
        expect(securityContext?.capabilities).toEqual({ drop: ["ALL"], add: ["IPC_LOCK"] });
        expect(env?.map(({ name }) => name)).toEqual(expect.arrayContaining(["NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"]));
      }
    },
  );

  test("the manifests of prefill nodes have two sets of engines that take prompts from each other, which gateways find", () => {
    const resources = resourcesOf(rendered("prefill"));
    expect(portFaults(resources)).toEqual([]);
    const pods = resources.flatMap(podsOf);
    const gateway = pods.find(({ metadata }) => metadata.labels["app.kubernetes.io/name"] === "svc-gateway");
    if (!gateway) throw new Error("there is no gateway");
    const fleet = dataOf(resources, gateway.spec.containers[0]?.envFrom?.[0]?.configMapRef.name);
    const { clusters } = checked(gatewayConfigSchema, configFile(resources, gateway, "gateway.yaml"), fleet);
    expect(clusters).toMatchObject([
      { address: "minimax-engine:50051", expectedEndpoints: 6, prefill: { address: "prefill-minimax-engine:50051" } },
    ]);
    const nodes = pods.filter(({ metadata }) => metadata.labels["svc/role"] === "node");
    expect(nodes).toHaveLength(2);
    for (const name of ["minimax-engine", "prefill-minimax-engine"]) {
      const service = resources.find(({ kind, metadata }) => kind === "Service" && metadata.name === name);
      const { selector = {} } = (service?.spec ?? {}) as { readonly selector?: Labels };
      expect([name, nodes.filter((pod) => selects(selector, pod.metadata.labels)).length]).toEqual([name, 1]);
    }
    const prompts = nodes.map((pod) => {
      const [engine] = containersOf(pod);
      const env = dataOf(resources, engine?.envFrom?.[0]?.configMapRef.name);
      const args = (engine?.args ?? []).join("\n");
      const [, transfer = "{}"] = /^--kv-transfer-config=(.*)$/m.exec(args) ?? [];
      const side = engine?.env?.find(({ name }) => name === "VLLM_NIXL_SIDE_CHANNEL_PORT")?.value;
      expect(args).toContain("--block-size=64");
      expect(args).not.toContain("--pipeline-parallel-size");
      expect([side, engine?.resources?.limits?.["rdma/ib"]]).toEqual(["5600", "1"]);
      const { kv_connector_extra_config: extra, ...rest } = JSON.parse(transfer);
      // Nodes rely on the time for which engines keep a prompt.
      expect(1_000 * extra.kv_lease_duration * (2 / 3)).toBeGreaterThanOrEqual(HAND_OVER_TTL_MS);
      return { ...rest, longPrefill: env.LONG_PREFILL, model: env.MODEL_ID };
    });
    const both = { kv_connector: "NixlConnector", kv_role: "kv_both", kv_load_failure_policy: "recompute" };
    const model = "svc-minimax";
    expect(prompts).toEqual([
      { ...both, model, longPrefill: "4096" },
      { ...both, model, longPrefill: "0" },
    ]);
    expect(onGpus(resources)).toHaveLength(8);
  });

  test("the manifests scale gateways by their CPU, and with an adapter by the metric of its rules", () => {
    type Metric = { readonly type: string; readonly pods?: { readonly metric: { readonly name: string } } };
    const metricsOf = (resources: readonly Resource[]) => {
      const scaler = resources.find(({ kind }) => kind === "HorizontalPodAutoscaler");
      return (scaler?.spec as { readonly metrics: readonly Metric[] } | undefined)?.metrics ?? [];
    };
    for (const folder of FLEETS)
      expect([folder, metricsOf(resourcesOf(rendered(folder))).map(({ type }) => type)]).toEqual([
        folder,
        ["Resource"],
      ]);
    const folder = "deploy/kubernetes/monitoring/scaling";
    const more = metricsOf(
      resourcesOf(renderedBeside(`resources: [svc/deploy/kubernetes/gateway]\ncomponents: [svc/${folder}]\n`)),
    );
    const rules = parse(readFileSync(join(import.meta.dirname, "../..", folder, "adapter-rules.yaml"), "utf8")) as {
      readonly seriesQuery: string;
    }[];
    const made = rules.map(({ seriesQuery }) => /^(\w+)\{job="svc-gateway"/.exec(seriesQuery)?.[1]);
    expect(more.flatMap(({ pods }) => pods?.metric.name ?? [])).toEqual(made);
  });

  describe.each(FLEETS)("of %s", (folder) => {
    const resources = noKustomize === "" ? resourcesOf(rendered(folder)) : [];
    const pods = resources.flatMap(podsOf);
    const nodes = pods.filter(({ metadata }) => metadata.labels["svc/role"] === "node");
    const gateway = pods.find(({ metadata }) => metadata.labels["app.kubernetes.io/name"] === "svc-gateway");
    const fleet = dataOf(resources, gateway?.spec.containers[0]?.envFrom?.[0]?.configMapRef.name);
    /** The number of nodes of each model. */
    const counts = new Map(
      resources.flatMap((resource) =>
        podsOf(resource)
          .filter((pod) => nodes.includes(pod))
          .map((pod) => [pod.metadata.labels["svc/model"], (resource.spec as { replicas?: number }).replicas ?? 1]),
      ),
    );

    test("manifests give gateways the number of nodes, and let a lone node finish its answers", () => {
      if (!gateway) throw new Error("there is no gateway");
      const { clusters } = checked(gatewayConfigSchema, configFile(resources, gateway, "gateway.yaml"), fleet);
      for (const { model, expectedEndpoints } of clusters)
        expect([model, expectedEndpoints]).toEqual([model, counts.get(model) ?? 0]);
      for (const pod of nodes) {
        const env = dataOf(resources, pod.spec.containers[0]?.envFrom?.[0]?.configMapRef.name);
        const { handoverGraceMs, drainTimeoutMs, models } = checked(
          engineConfigSchema,
          configFile(resources, pod, "engine.yaml"),
          env,
        );
        const isAlone = counts.get(models[0] ?? "") === 1;
        expect([models, handoverGraceMs === drainTimeoutMs]).toEqual([models, isAlone]);
      }
      const [, row] = new RegExp(`^\\| \`${folder}\` \\|.*\\| ([\\d, ]+) \\|$`, "m").exec(README) ?? [];
      const inOrder = ["glm53", "kimik3", "qwen", "minimax", "dsv4flash"].map((id) => counts.get(`svc-${id}`) ?? 0);
      expect(row ?? inOrder.join(", ")).toBe(inOrder.join(", "));
    });

    test("manifests replace nodes one by one with time for DNS, and spread those of a model over hosts", () => {
      for (const { kind, metadata, spec } of resources) {
        if (kind !== "Deployment" || !metadata.name.endsWith("-engine")) continue;
        const { minReadySeconds, template } = spec as { readonly minReadySeconds?: number; readonly template: Pod };
        expect(minReadySeconds).toBeGreaterThan(30);
        const { topologySpreadConstraints: spread } = template.spec as unknown as {
          readonly topologySpreadConstraints?: readonly {
            readonly topologyKey: string;
            readonly labelSelector: { readonly matchLabels: Labels };
          }[];
        };
        expect(spread?.map(({ topologyKey }) => topologyKey)).toEqual(["kubernetes.io/hostname"]);
        const { matchLabels = {} } = spread?.[0]?.labelSelector ?? {};
        expect(selects(matchLabels, template.metadata.labels)).toBe(true);
        // Those of its model alone.
        expect(nodes.filter((pod) => selects(matchLabels, pod.metadata.labels))).toHaveLength(1);
      }
    });

    test("manifests give gateways a valid configuration, whose clusters are the Services of nodes", () => {
      if (!gateway) throw new Error("there is no gateway");
      const config = checked(gatewayConfigSchema, configFile(resources, gateway, "gateway.yaml"), fleet);
      const addresses = new Map(config.clusters.map((one) => [one.model, one.type === "strict_dns" && one.address]));
      const services = resources.filter(
        ({ kind, spec }) => kind === "Service" && "svc/role" in (spec as { readonly selector: Labels }).selector,
      );
      expect(services.length).toBe(nodes.length);
      for (const { metadata, spec } of services) {
        const { selector, ports } = spec as { readonly selector: Labels; readonly ports: { readonly port: number }[] };
        expect(nodes.filter((pod) => selects(selector, pod.metadata.labels))).toHaveLength(1);
        expect(addresses.get(selector["svc/model"] ?? "")).toBe(`${metadata.name}:${ports[0]?.port}`);
      }
      const { drainGraceMs, drainTimeoutMs } = config;
      expect(gateway.spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(drainGraceMs + drainTimeoutMs);
    });

    test("manifests give each node a configuration that it takes, and time to drain", () => {
      for (const pod of nodes) {
        const [node] = pod.spec.containers;
        const env = dataOf(resources, node?.envFrom?.[0]?.configMapRef.name);
        const config = checked(engineConfigSchema, configFile(resources, pod, "engine.yaml"), env);
        expect(config).toMatchObject({ nodeId: "pod-1", models: [pod.metadata.labels["svc/model"]] });
        expect(pod.spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(config.drainTimeoutMs);
        const { backend } = config;
        if (backend.kind !== "openai-compatible") continue;
        loadProfile(backend.profile);
        const args = (pod.spec.initContainers ?? []).flatMap((engine) => engine.args ?? []);
        if (backend.dialect === "vllm") {
          expect(args).toContain("--enable-scale-out");
          expect(args).toContain("--long-prefill-token-threshold=$(LONG_PREFILL)");
          // A quarter of the tokens of a step, as vLLM sets them by the memory of a GPU.
          expect(Number(env.LONG_PREFILL)).toBe(folder.startsWith("gpus/h200") ? 8_192 / 4 : 16_384 / 4);
        }
        const [, events = "{}"] = /^--kv-events-config=(.*)$/m.exec(args.join("\n")) ?? [];
        expect(kvSource(JSON.parse(events), "127.0.0.1", Number(env.DP ?? 1) - 1)).toEqual({
          endpoint: expect.stringMatching(/^tcp:\/\/127\.0\.0\.1:55\d\d$/),
          listen: true,
          replayEndpoint: expect.stringMatching(/^tcp:\/\/127\.0\.0\.1:56\d\d$/),
        });
      }
    });

    test("manifests give each engine the GPUs and resources of its arguments", () => {
      for (const pod of pods) {
        const engine = [...(pod.spec.initContainers ?? []), ...pod.spec.containers].find(({ name }) =>
          ["vllm", "sglang"].includes(name),
        );
        if (!engine) continue;
        const env = dataOf(resources, engine.envFrom?.[0]?.configMapRef.name);
        expect(Number(env.TP) * Number(env.DP ?? 1)).toBe(Number(engine.resources?.limits?.["nvidia.com/gpu"]));
        const asked = (engine.args ?? []).flatMap((arg) =>
          [...arg.matchAll(/\$\((\w+)\)/g)].map(([, name = ""]) => name),
        );
        expect(asked.filter((name) => !(name in env) && !name.startsWith("LWS_"))).toEqual([]);
      }
      for (const { kind, spec } of resources)
        if (kind === "LeaderWorkerSet") {
          const { leaderTemplate, size } = (spec as { leaderWorkerTemplate: { leaderTemplate: Pod; size: number } })
            .leaderWorkerTemplate;
          const env = dataOf(resources, leaderTemplate.spec.containers[0]?.envFrom?.[0]?.configMapRef.name);
          expect(Number(env.PP)).toBe(size);
        }
    });

    test("manifests separate the compile caches of engines by model, on the volume that the fleet claims", () => {
      const engines = pods.filter((pod) => containersOf(pod).some(({ name }) => ["vllm", "sglang"].includes(name)));
      for (const pod of engines) {
        const [engine] = containersOf(pod);
        const mount = engine?.volumeMounts?.find(({ name }) => name === "compiled");
        expect(mount).toMatchObject({ mountPath: "/scratch/.cache", subPathExpr: "$(MODEL_ID)" });
        const volume = pod.spec.volumes.find(({ name }) => name === "compiled");
        const claim = volume?.persistentVolumeClaim?.claimName;
        expect(
          resources.some(({ kind, metadata }) => kind === "PersistentVolumeClaim" && metadata.name === claim),
        ).toBe(true);
        const folders = engine?.env
          ?.filter(({ name }) => /_CACHE_(?:DIR|PATH)$|^HOME$/.test(name))
          .map(({ value }) => value);
        expect(folders).toEqual(
          ["/scratch", "triton", "torchinductor", "cuda"].map((name, at) =>
            at === 0 ? name : `/scratch/.cache/${name}`,
          ),
        );
      }
      expect(engines.length > 0).toBe(folder.startsWith("gpus/"));
    });

    test("manifests leave no core file: the images of this project by their entry, others by the command", () => {
      for (const { name, image, command } of pods.flatMap(containersOf)) {
        const own = image.startsWith("registry.example/svc-");
        expect([name, command?.slice(0, 2)]).toEqual([name, own ? undefined : ["prlimit", "--core=0"]]);
      }
    });

    test("manifests select with every rule and budget the pods that are meant", () => {
      const selectors = resources.flatMap(({ kind, metadata, spec }) => {
        const { selector, podSelector } = (spec ?? {}) as {
          selector?: { matchLabels?: Labels };
          podSelector?: typeof selector;
        };
        if (kind === "PodDisruptionBudget" || kind === "Deployment" || kind === "StatefulSet")
          return [[metadata.name, selector?.matchLabels] as const];
        return kind === "NetworkPolicy" ? [[metadata.name, podSelector?.matchLabels] as const] : [];
      });
      for (const [name, labels] of selectors)
        expect([name, pods.filter((pod) => selects(labels ?? {}, pod.metadata.labels)).length > 0]).toEqual([
          name,
          true,
        ]);
      const rules = JSON.stringify(resources.filter(({ kind }) => kind === "NetworkPolicy"));
      for (const [, name] of rules.matchAll(/"app.kubernetes.io\/name":"([^"]+)"/g))
        expect(["svc-edge", "svc-gateway", "svc-engine", "svc-state"]).toContain(name);
      expect(rules).not.toContain("svc/model");
    });
  });
});
