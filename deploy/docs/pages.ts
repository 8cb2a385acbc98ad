import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { engineConfigSchema } from "../../engine/config.ts";
import { profileSchema } from "../../engine/profiles/profile.ts";
import { gatewayConfigSchema } from "../../gateway/config.ts";
import { grafanaJson } from "../monitoring/dashboards/dashboard.ts";
import { engine as engineDashboard } from "../monitoring/dashboards/engine.ts";
import { fleet } from "../monitoring/dashboards/fleet.ts";
import { keys } from "../monitoring/dashboards/keys.ts";
import { projectFolder } from "../runtime/files/project-folder.ts";
import { configurationPage } from "./configuration-page.ts";
import { ENVOY_NAMES } from "./envoy-names.ts";
import { familiesPage } from "./families-page.ts";
import { engineRegistry, gatewayRegistry } from "./live-registries.ts";
import { fileSchema, type SchemaNode } from "./markdown.ts";
import { ENGINE_METRIC_ACTIONS, GATEWAY_METRIC_ACTIONS } from "./metric-actions.ts";
import { metricsPage } from "./metrics-page.ts";
import { engineErrorsPage, outcomesPage } from "./outcomes-page.ts";
import { referencePages } from "./reference/format-pages.ts";

/** A generated file: its path in the repository, and its text. */
export type GeneratedFile = { readonly path: string; readonly text: string };

const CONFIGURATION_INTRO = [
  "One YAML file per process, checked strictly: an unknown key stops the start with its path and exit code 2. Only what is",
  "required has to be in the file, and what is required in a section only where the section is. Relative paths start at the",
  "folder where the process is started.",
  "",
  `A value may take environment variables: \`\${NAME}\` is the variable's value, \`\${NAME:-text}\` the text where it is unset or empty,`,
  `and \`$\${\` a plain \`\${\`. A variable that is unset stops the start. Alone and without quotation marks, as in \`port: \${PORT}\`, a`,
  "reference may be a number, `true` or `false`. `--check-config` checks the file and starts nothing.",
].join("\n");

function gatewayConfiguration(schema: SchemaNode): string {
  return configurationPage({
    title: "Configuration of the gateway",
    madeFrom: "`gateway/config.ts` and the schemas that it composes",
    intro: [
      CONFIGURATION_INTRO,
      "The last column names the field of Envoy's v3 API that means the same; its default there may be another.",
      editorLine("gateway/docs/gateway.schema.json"),
    ],
    schema,
    envoyNames: ENVOY_NAMES,
  });
}

function engineConfiguration(schema: SchemaNode): string {
  return configurationPage({
    title: "Configuration of an engine node",
    madeFrom: "`engine/config.ts`",
    intro: [CONFIGURATION_INTRO, editorLine("engine/docs/engine.schema.json")],
    schema,
  });
}

const PLATFORM_METRICS = [
  "Beside these stand the metrics that prom-client and Node bring for every process, `process_…` and `nodejs_…`. Alert on",
  "`nodejs_eventloop_lag_p99_seconds` above 0.2, on `process_open_fds` near `process_max_fds`, and on",
  "`process_resident_memory_bytes` near the memory of the machine.",
].join("\n");

function gatewayMetrics(): string {
  return metricsPage({
    title: "Metrics of the gateway",
    madeFrom: "the registry of a gateway and `deploy/docs/metric-actions.ts`",
    intro: [
      "Served as Prometheus text at `/stats` of the admin port. No label says whose a request was.",
      PLATFORM_METRICS,
    ],
    registry: gatewayRegistry(),
    actions: GATEWAY_METRIC_ACTIONS,
  });
}

function engineMetrics(): string {
  return metricsPage({
    title: "Metrics of an engine node",
    madeFrom: "the registry of a node and `deploy/docs/metric-actions.ts`",
    intro: ["Served as Prometheus text at `/metrics` of `metrics.port`.", PLATFORM_METRICS],
    registry: engineRegistry(),
    actions: ENGINE_METRIC_ACTIONS,
  });
}

function editorLine(path: string): string {
  return `Editors with a YAML language server complete and check a file that begins with \`# yaml-language-server: $schema=${path}\`.`;
}

/** Returns every generated document of the repository. */
export function generatedFiles(): readonly GeneratedFile[] {
  const gateway = fileSchema(gatewayConfigSchema, "Configuration of a svc gateway");
  const engine = fileSchema(engineConfigSchema, "Configuration of a svc engine node");
  const profile = fileSchema(profileSchema, "A family of models, as a svc engine node has to know it");
  return [
    { path: "gateway/docs/configuration.md", text: gatewayConfiguration(gateway) },
    { path: "gateway/docs/gateway.schema.json", text: json(gateway) },
    { path: "engine/docs/configuration.md", text: engineConfiguration(engine) },
    { path: "engine/docs/engine.schema.json", text: json(engine) },
    { path: "gateway/docs/outcomes.md", text: outcomesPage() },
    ...referencePages(),
    { path: "engine/docs/errors.md", text: engineErrorsPage() },
    { path: "engine/docs/families.md", text: familiesPage() },
    { path: "gateway/docs/metrics.md", text: gatewayMetrics() },
    { path: "engine/docs/metrics.md", text: engineMetrics() },
    { path: "engine/docs/profile.schema.json", text: json(profile) },
    { path: "deploy/kubernetes/monitoring/alerts.yaml", text: prometheusRule() },
    ...[fleet, keys, engineDashboard].map((dashboard) => ({
      path: `deploy/monitoring/grafana/${dashboard.name}.json`,
      text: json(grafanaJson(dashboard)),
    })),
  ];
}

function prometheusRule(): string {
  const spec: unknown = parse(readFileSync(join(projectFolder(), "deploy/monitoring/alerts.yaml"), "utf8"));
  const rule = { apiVersion: "monitoring.coreos.com/v1", kind: "PrometheusRule", metadata: { name: "svc" }, spec };
  return `# Written by \`npm run docs\` from deploy/monitoring/alerts.yaml. Change that, and run it again.\n${stringify(rule)}`;
}

function json(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
