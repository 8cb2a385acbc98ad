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
import { AGENTS_PAGE, agentsPage } from "./agents-page.ts";
import { configurationPage } from "./configuration-page.ts";
import { familiesPage } from "./families-page.ts";
import { referencePages } from "./format-pages.ts";
import { engineRegistry, gatewayRegistry } from "./live-registries.ts";
import { fileSchema } from "./markdown.ts";
import { ENGINE_METRIC_ACTIONS, GATEWAY_METRIC_ACTIONS } from "./metric-actions.ts";
import { metricsPage } from "./metrics-page.ts";
import { engineErrorsPage, outcomesPage } from "./outcomes-page.ts";

export type GeneratedFile = { readonly path: string; readonly text: string };

export function generatedFiles(): readonly GeneratedFile[] {
  const gateway = fileSchema(gatewayConfigSchema, "Configuration of a svc gateway");
  const engine = fileSchema(engineConfigSchema, "Configuration of a svc engine node");
  const profile = fileSchema(profileSchema, "A family of models, as a svc engine node has to know it");
  return [
    {
      path: "gateway/docs/configuration.md",
      text: configurationPage("the gateway", "gateway/config.ts", gateway),
    },
    { path: "gateway/docs/gateway.schema.json", text: json(gateway) },
    {
      path: "engine/docs/configuration.md",
      text: configurationPage("an engine node", "engine/config.ts", engine, {
        program: "the gateway",
        link: "../../gateway/docs/configuration.md",
        schema: gateway,
      }),
    },
    { path: "engine/docs/engine.schema.json", text: json(engine) },
    { path: AGENTS_PAGE, text: agentsPage() },
    { path: "gateway/docs/outcomes.md", text: outcomesPage() },
    ...referencePages(),
    { path: "engine/docs/errors.md", text: engineErrorsPage() },
    { path: "engine/docs/families.md", text: familiesPage() },
    {
      path: "gateway/docs/metrics.md",
      text: metricsPage(
        "the gateway",
        "Served as Prometheus text at `/stats` of the admin port. No label says whose a request was. Those of `svc_cluster_…` are of a cluster, their label `cluster`.",
        gatewayRegistry(),
        GATEWAY_METRIC_ACTIONS,
      ),
    },
    {
      path: "engine/docs/metrics.md",
      text: metricsPage(
        "an engine node",
        "Served as Prometheus text at `/metrics` of `metrics.port`.",
        engineRegistry(),
        ENGINE_METRIC_ACTIONS,
      ),
    },
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
