import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { engineConfigSchema } from "../../../../engine/config.ts";
import { gatewayConfigSchema } from "../../../../gateway/config.ts";
import { independentValidator } from "../../../support/schemas/independent-validator.ts";

/*
 * The schema files are for editors: they must accept what the programs accept, and should refuse what the programs
 * refuse.
 */

const ROOT = join(import.meta.dirname, "../../../..");
const PROFILES = join(ROOT, "engine/profiles");

function validator(path: string) {
  const { $schema, ...schema } = JSON.parse(readFileSync(join(ROOT, path), "utf8"));
  expect($schema).toBe("http://json-schema.org/draft-07/schema#");
  return independentValidator(schema);
}

function examples(document: string, name: string): readonly unknown[] {
  const blocks = readFileSync(join(ROOT, document), "utf8").matchAll(/```yaml\n# (\S+)\n([\s\S]*?)```/g);
  return [...blocks].flatMap(([, file, text = ""]) => (file === name ? [parse(text)] : []));
}

describe("the schema of the gateway's configuration", () => {
  const isValid = validator("gateway/docs/gateway.schema.json");

  test("the schema of the gateway's configuration takes the example of the page on operating, and so does the gateway", () => {
    const found = examples("deploy/docs/operate.md", "gateway.yaml");
    expect(found).toHaveLength(1);
    for (const example of found)
      expect([isValid(example), gatewayConfigSchema.safeParse(example).success]).toEqual([true, true]);
  });

  test.each([
    { what: "an unknown key", config: { keys: { file: "k" }, clusters: [], speed: 1 } },
    { what: "no key file", config: { clusters: [] } },
    { what: "a value out of range", config: { keys: { file: "k" }, clusters: [], maxBodyBytes: 1 } },
    {
      what: "a cluster with keys of another type",
      config: { keys: { file: "k" }, clusters: [{ model: "svc-qwen", type: "file", address: "a:1" }] },
    },
  ])("the schema of the gateway's configuration refuses $what, as the gateway does", ({ config }) => {
    expect([isValid(config), gatewayConfigSchema.safeParse(config).success]).toEqual([false, false]);
  });
});

describe("the schema of a node's configuration", () => {
  const isValid = validator("engine/docs/engine.schema.json");

  test("the schema of a node's configuration takes the example of the page on operating, and so does the node", () => {
    const found = examples("deploy/docs/operate.md", "engine.yaml");
    expect(found).toHaveLength(1);
    for (const example of found)
      expect([isValid(example), engineConfigSchema.safeParse(example).success]).toEqual([true, true]);
  });

  test("the schema of a node's configuration refuses a key of another backend, as the node does", () => {
    const config = { models: ["m"], backend: { kind: "scripted", modelPath: "m.gguf" } };
    expect([isValid(config), engineConfigSchema.safeParse(config).success]).toEqual([false, false]);
  });
});

type Node = Readonly<Record<string, unknown>>;

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the paths of the keys below a node of a schema that have no description. */
function unexplained(node: Node, path = ""): readonly string[] {
  const keys = Object.entries(isNode(node.properties) ? node.properties : {}).flatMap(([name, key]) => {
    if (!isNode(key)) return [];
    const here = key.description === undefined && key.const === undefined ? [`${path}.${name}`] : [];
    return [...here, ...unexplained(key, `${path}.${name}`)];
  });
  const inner = [node.items, node.anyOf, node.oneOf].flat().filter(isNode);
  return [...keys, ...inner.flatMap((form) => unexplained(form, path))];
}

test.each(["gateway/docs/gateway.schema.json", "engine/docs/engine.schema.json", "engine/docs/profile.schema.json"])(
  "every key of %s is explained where an editor asks for it",
  (path) => {
    expect(unexplained(JSON.parse(readFileSync(join(ROOT, path), "utf8")))).toEqual([]);
  },
);

test.each(readdirSync(PROFILES).filter((file) => file.endsWith(".yaml")))("the schema of profiles takes %s", (file) => {
  const profile: unknown = parse(readFileSync(join(PROFILES, file), "utf8"));
  expect(validator("engine/docs/profile.schema.json")(profile)).toBe(true);
});
