import { describe, expect, test } from "vitest";
import { parseDocument } from "yaml";
import { fillFromEnvironment } from "../../deploy/runtime/config/environment.ts";
import { checkConfig } from "../../deploy/runtime/config/load-config.ts";
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
  noSchemas,
  type Pod,
  podsOf,
  rendered,
  resourcesOf,
  selects,
} from "../support/tools/manifests.ts";

const FLEETS = ["gpus/h200", "gpus/b200", "gpus/b300", "cpu"];

/** Checks the text of a configuration as the program does, in the environment of its container. */
function checked<T extends Parameters<typeof checkConfig>[0]>(schema: T, text: string, env: Labels) {
  const document = parseDocument(text);
  expect(fillFromEnvironment(document, { ...env, POD_NAME: "pod-1" })).toEqual([]);
  return checkConfig(schema, document.toJS(), "config");
}

describe.skipIf(noKustomize !== "")("the manifests", () => {
  test.skipIf(noSchemas !== "").each([...FLEETS, "monitoring", "autoscaling", "engines/sglang-multihost"])(
    "of %s are what Kubernetes and its extensions take",
    (folder) => expect(faultsOf(rendered(folder))).toBe(""),
  );

  test.skipIf(noSchemas !== "")("are judged strictly, custom resources too", () => {
    const text = rendered("gpus/h200");
    expect(faultsOf(text.replace("startupPolicy:", "startPolicy:"))).toContain("startPolicy");
    expect(faultsOf(text.replaceAll("maxUnavailable: 0", "maxUnavailabe: 0"))).toContain("maxUnavailabe");
    expect(faultsOf(text.replace("clusterIP: None", "clusterIP: [1]"))).toContain("clusterIP");
  });

  describe.each(FLEETS)("of %s", (folder) => {
    const resources = noKustomize === "" ? resourcesOf(rendered(folder)) : [];
    const pods = resources.flatMap(podsOf);
    const nodes = pods.filter(({ metadata }) => metadata.labels["svc/role"] === "node");
    const gateway = pods.find(({ metadata }) => metadata.labels["app.kubernetes.io/name"] === "svc-gateway");

    test("give gateways a configuration that they take, whose clusters are the Services of nodes", () => {
      if (!gateway) throw new Error("there is no gateway");
      const config = checked(gatewayConfigSchema, configFile(resources, gateway, "gateway.yaml"), {});
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

    test("give each node a configuration that it takes, and time to drain", () => {
      for (const pod of nodes) {
        const [node] = pod.spec.containers;
        const env = dataOf(resources, node?.envFrom?.[0]?.configMapRef.name);
        const config = checked(engineConfigSchema, configFile(resources, pod, "engine.yaml"), env);
        expect(config).toMatchObject({ nodeId: "pod-1", models: [pod.metadata.labels["svc/model"]] });
        expect(pod.spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(config.drainTimeoutMs);
        if (config.backend.kind !== "openai-compatible") continue;
        // The engine's parsers are those that the model's profile names.
        const parsers = loadProfile(config.backend.profile).parsers?.[config.backend.dialect as "vllm" | "sglang"];
        expect([env.TOOL_PARSER, env.REASONING_PARSER]).toEqual([parsers?.toolCall, parsers?.reasoning]);
      }
    });

    test("give each engine as many GPUs as it is told to use, and all that its arguments ask for", () => {
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

    test("leave no core file: the images of this project by their entry, others by the command", () => {
      for (const { name, image, command } of pods.flatMap(containersOf)) {
        // Valkey holds digests of keys and counts, and nothing of prompts.
        if (name === "valkey") continue;
        const own = image.startsWith("registry.example/svc-");
        expect([name, command?.slice(0, 2)]).toEqual([name, own ? undefined : ["prlimit", "--core=0"]]);
      }
    });

    test("select with every rule and budget the pods that are meant", () => {
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
