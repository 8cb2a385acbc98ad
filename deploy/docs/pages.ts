import { engineConfigSchema } from "../../engine/config.ts";
import { profileSchema } from "../../engine/profiles/profile.ts";
import { gatewayConfigSchema } from "../../gateway/config/gateway-config.ts";
import { configurationPage } from "./configuration-page.ts";
import { ENVOY_NAMES } from "./envoy-names.ts";
import { fileSchema, type SchemaNode } from "./json-schema.ts";
import { engineErrorsPage, outcomesPage } from "./outcomes-page.ts";

/** A file that is made from code: its path in the repository, and its whole text. */
export type GeneratedFile = { readonly path: string; readonly text: string };

const CONFIGURATION_INTRO = [
  "One YAML file per process, checked strictly: an unknown key stops the start with its path and exit code 2. Only what is",
  "required has to be in the file, and what is required in a section only where the section is. Relative paths start at the",
  "folder where the process is started.",
].join("\n");

function gatewayConfiguration(schema: SchemaNode): string {
  return configurationPage({
    title: "Configuration of the gateway",
    madeFrom: "`gateway/config/`",
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

function editorLine(path: string): string {
  return `Editors with a YAML language server complete and check a file that begins with \`# yaml-language-server: $schema=${path}\`.`;
}

/** Every generated document of the repository. */
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
    { path: "engine/docs/errors.md", text: engineErrorsPage() },
    { path: "engine/docs/profile.schema.json", text: json(profile) },
  ];
}

function json(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
