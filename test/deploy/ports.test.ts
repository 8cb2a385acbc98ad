import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { configFile, noKustomize, podsOf, rendered, resourcesOf } from "../support/tools/manifests.ts";
import { envoyTargets, listensOn, portFaults } from "../support/tools/ports.ts";

/* Every port and name that deploy/ refers to, compared with its listener. */

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, "deploy", path), "utf8");

describe.skipIf(noKustomize !== "")("in Kubernetes", () => {
  test.each(["gpus/h200", "gpus/b200", "gpus/b300", "gpu", "cpu"])(
    "Envoy, Prometheus, KEDA, probes and policies use ports and names that %s has",
    (folder) => {
      const whole = [rendered(folder), rendered("monitoring"), rendered("autoscaling")].flatMap(resourcesOf);
      expect(portFaults(whole)).toEqual([]);
      const edge = whole.flatMap(podsOf).find(({ metadata }) => "svc/edge" in metadata.labels);
      expect(edge && envoyTargets(configFile(whole, edge, "envoy.yaml")).map(({ port }) => port)).toEqual([
        8080, 9902, 50050, 9902,
      ]);
    },
  );

  test("KEDA asks for metrics that gateways have, of a model that they serve", () => {
    const queries = rendered("autoscaling").match(/query: [\s\S]+?(?=\n +\w+:)/g) ?? [];
    const names = queries.flatMap((query) => query.match(/svc_\w+/g) ?? []);
    expect(names.length).toBeGreaterThan(2);
    const page = readFileSync(join(ROOT, "gateway/docs/metrics.md"), "utf8");
    expect(names.filter((name) => !new RegExp(`\`${name.replace(/_bucket$/, "")}[\`{]`).test(page))).toEqual([]);
    const models = queries.flatMap((query) =>
      [...query.matchAll(/(?:cluster|model)="([^"]+)"/g)].map(([, model]) => model),
    );
    const { clusters } = parse(read("kubernetes/gateway/gateway.yaml"), { merge: true });
    const served = clusters.map(({ model }: { readonly model: string }) => model);
    expect(models.filter((model) => !served.includes(model))).toEqual([]);
  });

  // Each is a possible mistake in a set, with the expected complaint.
  const text =
    noKustomize === "" ? [rendered("cpu"), rendered("monitoring"), rendered("autoscaling")].join("\n---\n") : "";
  test.each([
    [
      "an edge that may not ask for health",
      "    - port: 50050\n    - port: 9902\n",
      "    - port: 50050\n",
      "Envoy's gateways: no policy lets svc-edge reach port 9902 of svc-gateway",
    ],
    [
      "a program that listens elsewhere",
      "health: { host: 0.0.0.0, port: 9902 }",
      "health: { host: 0.0.0.0, port: 9900 }",
      "svc-gateway listens on 8080,9900,50050 and declares 8080,9902,50050",
    ],
    [
      "a monitor of a port of another name",
      "- interval: 15s\n    port: metrics\n",
      "- interval: 15s\n    port: metric\n",
      "the PodMonitor svc-engine: svc-engine has no port metric",
    ],
    [
      "a scaler of a missing target",
      "  scaleTargetRef:\n    name: qwen-engine\n",
      "  scaleTargetRef:\n    name: qwen\n",
      "the scaler qwen-engine: there is no qwen",
    ],
  ])("the check of ports in Kubernetes finds %s", (_, from, to, fault) => {
    expect(text).toContain(from);
    expect(portFaults(resourcesOf(text.replaceAll(from, to)))).toContain(fault);
  });
});

describe("in compose", () => {
  type Compose = {
    readonly services: Readonly<
      Record<
        string,
        {
          readonly command?: readonly string[];
          readonly networks?: { readonly default: { readonly aliases: readonly string[] } };
        }
      >
    >;
  };
  const { services } = parse(read("compose/compose.yaml"), { merge: true }) as Compose;
  const portsBehind = (name: string) => {
    const named = Object.entries(services).filter(
      ([own, { networks }]) => own === name || networks?.default.aliases.includes(name),
    );
    return named.map(([, { command }]) => {
      const [file] = command?.flatMap((word) => /^\/etc\/svc\/(.+\.yaml)$/.exec(word)?.[1] ?? []) ?? [];
      return listensOn(parse(read(`compose/config/${file}`)));
    });
  };

  test("Envoy and Prometheus call names that stand for gateways and nodes, on ports where these listen", () => {
    const { scrape_configs: jobs, alerting } = parse(read("monitoring/prometheus.yaml")) as {
      readonly scrape_configs: readonly {
        readonly dns_sd_configs?: readonly { readonly names: readonly string[]; readonly port: number }[];
        readonly static_configs?: readonly { readonly targets: readonly string[] }[];
      }[];
      readonly alerting: { readonly alertmanagers: { readonly static_configs: { readonly targets: string[] }[] }[] };
    };
    const found = jobs.flatMap(({ dns_sd_configs = [] }) =>
      dns_sd_configs.flatMap(({ names, port }) => names.map((name) => ({ name, port }))),
    );
    const fixed = jobs
      .flatMap(({ static_configs = [] }) => static_configs.flatMap(({ targets }) => targets))
      .map((target) => ({ name: target.split(":")[0] ?? "", port: Number(target.split(":")[1]) }));
    // Every gateway of the compose file, by its own name.
    const named = fixed.filter(({ name }) => name.startsWith("gateway-")).map(({ name }) => name);
    expect(named).toEqual(Object.keys(services).filter((name) => name.startsWith("gateway-")));
    const others = fixed.filter(({ name }) => !named.includes(name));
    expect(others).toEqual([
      { name: "envoy", port: 9904 },
      { name: "prober", port: 9465 },
      { name: "alertmanager", port: 9093 },
    ]);
    expect(others.filter(({ name }) => !(name in services))).toEqual([]);
    expect(alerting.alertmanagers[0]?.static_configs[0]?.targets).toEqual(["alertmanager:9093"]);
    expect(listensOn(parse(read("envoy/envoy.yaml")))).toContain(9904);
    const scraped = [...found, ...fixed.filter(({ name }) => named.includes(name) || name === "prober")];
    for (const { name, port } of [...scraped, ...envoyTargets(read("envoy/envoy.yaml"))]) {
      expect(portsBehind(name).length).toBeGreaterThan(0);
      for (const ports of portsBehind(name)) expect([name, ports]).toEqual([name, expect.arrayContaining([port])]);
    }
  });
});
