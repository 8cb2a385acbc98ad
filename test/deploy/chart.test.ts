import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, parseDocument } from "yaml";
import { checkConfig, fillFromEnvironment } from "../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../gateway/config.ts";
import {
  configFile,
  containersOf,
  dataOf,
  faultsOf,
  helm,
  judged,
  noKustomize,
  noValidation,
  type Pod,
  podsOf,
  type Resource,
  rendered,
  renderedBeside,
  resourcesOf,
} from "../support/tools/manifests.ts";
import { portFaults } from "../support/tools/ports.ts";

const DEPLOY = join(import.meta.dirname, "../../deploy");

const LLAMA = {
  kind: "llama",
  nodes: 2,
  env: { MODEL_ID: "svc-qwen", MODEL_PATH: "/models/qwen.gguf", MAX_MODEL_LEN: "32768", SLOTS: "4", GPU: "false" },
};
const QWEN = {
  kind: "vllm",
  nodes: 4,
  gpus: 1,
  env: { MODEL_ID: "svc-qwen", MODEL_PATH: "/models/qwen", MAX_MODEL_LEN: "262144" },
};
const DSV4FLASH = {
  kind: "vllm",
  nodes: 1,
  gpus: 4,
  env: {
    ...{ MODEL_ID: "svc-dsv4flash", MODEL_PATH: "/models/dsv4flash", PROFILE: "deepseek-v4" },
    ...{ MAX_MODEL_LEN: "1048576", DP: "4" },
  },
  args: ["--enable-expert-parallel", "--tokenizer-mode=deepseek_v4", "--block-size=256"],
};
const WHOLE = {
  registry: "your.registry/svc",
  images: { envoy: `mirror.example/envoy@sha256:${"0".repeat(64)}` },
  httpRoute: { enabled: true, parentRefs: [{ name: "public", namespace: "gateways" }], hostnames: ["api.example.com"] },
  gateway: { minReplicas: 3, config: { drainGraceMs: 20_000 } },
  monitoring: { enabled: true, receiver: true },
  engines: { qwen: LLAMA, dsv4flash: { ...DSV4FLASH, nodeSelector: { "svc/host": "shared" } } },
  patches: { "Deployment/svc-edge": { spec: { replicas: 3 } } },
};

function chart(values: object): readonly Resource[] {
  const { text, fault } = helm("template", values);
  expect(fault).toBe("");
  return resourcesOf(text);
}

const named = (resources: readonly Resource[], kind: string, name: string): Resource => {
  const found = resources.find((one) => one.kind === kind && one.metadata.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  return found;
};

/** Objects by kind and name, without what the two tools add so that a new configuration rolls the pods. */
function comparable(resources: readonly Resource[]): Readonly<Record<string, unknown>> {
  const text = JSON.stringify(resources, (key, value) => (key === "annotations" ? undefined : value));
  const plain: Resource[] = JSON.parse(
    text.replaceAll(/"((?:\w+-)?(?:gateway|edge|fleet|prober|engine|model))-[a-z0-9]{10}"/g, '"$1"'),
  );
  return Object.fromEntries(plain.map((one) => [`${one.kind}/${one.metadata.name}`, one]));
}

describe.skipIf(noValidation !== "" || noKustomize !== "")(`the chart ${noValidation}`, () => {
  test.each([
    ["by default", {}],
    ["with engines, a route, monitoring and changes", WHOLE],
    ["without edge and store", { edge: { enabled: false }, state: { enabled: false } }],
  ])("%s passes Helm's lint and an API server's validation", (_, values) => {
    expect(helm("lint", values).fault).toBe("");
    const { text, fault } = helm("template", values);
    expect([fault, faultsOf(text)]).toEqual(["", ""]);
    const resources = resourcesOf(text);
    expect(resources.length).toBeGreaterThan(7);
    // Policies name engines, which other kustomizations may bring.
    if ("engines" in values) expect(portFaults(resources)).toEqual([]);
  });

  test("the chart takes the values of its page", () => {
    const page = readFileSync(join(DEPLOY, "kubernetes/README.md"), "utf8");
    const [, values = ""] = /^```yaml\n(# values\.yaml[\s\S]+?)^```$/m.exec(page) ?? [];
    const { text, fault } = helm("template", parse(values));
    expect([fault, faultsOf(text)]).toEqual(["", ""]);
    expect(text).toContain("image: your.registry/svc-engine:");
  });

  test("the chart renders the objects of the kustomizations", () => {
    const folders = ["edge", "gateway", "network", "monitoring"].map((name) => `svc/deploy/kubernetes/${name}`);
    const called = "components: [svc/deploy/kubernetes/monitoring/receiver, svc/deploy/kubernetes/prober]";
    const kustomized = comparable(resourcesOf(renderedBeside(`resources: [${folders.join(", ")}]\n${called}\n`)));
    const values = { monitoring: { enabled: true, receiver: true }, prober: { enabled: true } };
    expect(comparable(chart(values))).toEqual(kustomized);
    expect(Object.keys(kustomized).length).toBeGreaterThan(18);
  });

  test.each([
    ["cpu/qwen", "qwen", LLAMA],
    ["gpus/h200/qwen", "qwen", QWEN],
    ["gpus/h200/dsv4flash", "dsv4flash", DSV4FLASH],
  ])("the chart renders engines of its values as %s", (folder, name, engine) => {
    const ours = comparable(chart({ engines: { [name]: engine } }));
    const toleration = { key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" };
    for (const [key, theirs] of Object.entries(comparable(resourcesOf(rendered(folder))))) {
      const resource = structuredClone(ours[key]) as Resource;
      const [pod] = podsOf(resource) as readonly (Pod & { readonly spec: { tolerations?: unknown } })[];
      if (pod && "gpus" in engine) {
        // Set by the fleets for all of their engines.
        expect(pod.spec.tolerations).toEqual([toleration]);
        delete pod.spec.tolerations;
      }
      if (key === `ConfigMap/${name}-model` && engine.nodes === 1) {
        // A lone node hands no answer over: the fleets say so.
        const { HANDOVER_GRACE_MS, ...data } = (resource as Resource & { data: Record<string, string> }).data;
        expect([HANDOVER_GRACE_MS, { ...resource, data }]).toEqual(["600000", theirs]);
      } else expect(resource).toEqual(theirs);
    }
  });

  test("the chart gives gateways a valid configuration with the clusters of its engines", () => {
    const resources = chart(WHOLE);
    const [pod] = podsOf(named(resources, "Deployment", "svc-gateway"));
    if (!pod) throw new Error("there is no pod");
    const document = parseDocument(configFile(resources, pod, "gateway.yaml"));
    const fleet = dataOf(resources, "svc-fleet");
    expect(fillFromEnvironment(document, { ...fleet })).toEqual([]);
    const config = checkConfig(gatewayConfigSchema, document.toJS(), "config");
    expect(config.drainGraceMs).toBe(20_000);
    expect(new Set(config.clusters.map(({ model }) => model)).size).toBe(5);
    for (const [name, { env, nodes }] of Object.entries(WHOLE.engines))
      expect(config.clusters.find(({ model }) => model === env.MODEL_ID)).toMatchObject({
        address: `${named(resources, "Service", `${name}-engine`).metadata.name}:50051`,
        expectedEndpoints: nodes,
        tls: { serverName: "svc-engine" },
      });
    expect(named(resources, "HorizontalPodAutoscaler", "svc-gateway").spec).toMatchObject({
      minReplicas: 3,
      maxReplicas: 20,
    });
    const images = resources
      .flatMap(podsOf)
      .flatMap(containersOf)
      .map(({ image }) => image);
    expect(images.filter((image) => image.includes("registry.example"))).toEqual([]);
    expect(images).toContain(WHOLE.images.envoy);
    expect(named(resources, "Deployment", "svc-edge").spec).toMatchObject({ replicas: 3 });
  });

  test("the chart rolls the pods that a new configuration is for, and no others", () => {
    const marks = (values: object) =>
      Object.fromEntries(
        chart(values).flatMap((one) => podsOf(one).map((pod) => [one.metadata.name, JSON.stringify(pod.metadata)])),
      );
    const before = marks({ engines: { qwen: LLAMA } });
    const after = marks({ engines: { qwen: LLAMA }, gateway: { config: { drainGraceMs: 16_000 } } });
    expect(Object.keys(before).filter((name) => before[name] !== after[name])).toEqual(["svc-gateway"]);
    const slots = marks({ engines: { qwen: { ...LLAMA, env: { ...LLAMA.env, SLOTS: "8" } } } });
    expect(Object.keys(before).filter((name) => before[name] !== slots[name])).toEqual(["qwen-engine"]);
  });

  test.each([
    ["a name with an error", { gateways: {} }],
    ["vLLM without GPUs", { engines: { qwen: { ...QWEN, gpus: undefined } } }],
    ["arguments of vLLM for llama.cpp", { engines: { qwen: { ...LLAMA, args: ["--x"] } } }],
    ["a number in an environment", { engines: { qwen: { ...LLAMA, env: { ...LLAMA.env, SLOTS: 4 } } } }],
    ["a route without a gateway", { httpRoute: { enabled: true } }],
    ["nodes of no model", { fleet: { GLM53: "1" } }],
  ])("the chart refuses %s", (_, values) => {
    expect(helm("template", values).fault).toContain("values don't meet the specifications of the schema");
  });

  test("the chart routes by a Gateway API as the shipped Envoy does", () => {
    const text = readFileSync(join(DEPLOY, "envoy/envoy.yaml"), "utf8");
    const routes = [
      ...text.matchAll(/- name: (models|generate|other)\n +match: \{ prefix: (\S+) \}[\s\S]+?timeout: (\w+)/g),
    ];
    const rules = parse(readFileSync(join(DEPLOY, "kubernetes/route/route.yaml"), "utf8")).spec.rules as {
      readonly matches: readonly { readonly path: { readonly value: string } }[];
      readonly timeouts: { readonly request: string; readonly backendRequest: string };
    }[];
    expect(
      rules.map(({ matches, timeouts }) => [matches[0]?.path.value, timeouts.request, timeouts.backendRequest]),
    ).toEqual(routes.map(([, , prefix, timeout]) => [prefix, timeout, timeout]));
    expect(rules).toHaveLength(3);
  });

  test("the chart meets Pod Security `restricted`, but for images of engines that start as root", () => {
    const levels = judged([helm("template", WHOLE).text, rendered("gpus/h200")].join("\n---\n")).flatMap(
      ({ object, security }) => (security ? [`${object}: ${security}`] : []),
    );
    expect(new Set(levels.filter((line) => !line.endsWith("restricted")))).toEqual(
      new Set([
        ...["dsv4flash", "minimax", "qwen"].map((name) => `Deployment ${name}-engine: baseline`),
        ...["glm53", "kimik3"].map((name) => `LeaderWorkerSet ${name}-hosts: baseline`),
      ]),
    );
    for (const name of [
      "Deployment svc-gateway",
      "Deployment svc-edge",
      "StatefulSet svc-state",
      "Deployment qwen-engine",
    ])
      expect(levels).toContain(`${name}: restricted`);
  });
});
