import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import * as z from "zod";
import { ConfigError, checkConfig, loadConfig, parseConfig } from "../../../../../deploy/runtime/config/load-config.ts";
import { listenSchema, logSchema } from "../../../../../deploy/runtime/config/process-schema.ts";

const folder = mkdtempSync(join(tmpdir(), "load-config-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const schema = z.strictObject({ listen: listenSchema(8080), log: logSchema });
const DEFAULTS = { listen: { host: "127.0.0.1", port: 8080 }, log: { level: "info", format: "auto" } };

function inFile(text: string): string {
  const file = join(folder, "a.yaml");
  writeFileSync(file, text);
  return file;
}

test("a file is read and its defaults are filled in", () => {
  const file = inFile("listen: { port: 1 }\n");
  expect(loadConfig(schema, file)).toEqual({ ...DEFAULTS, listen: { host: "127.0.0.1", port: 1 } });
  expect(checkConfig(schema, {}, "a.yaml")).toEqual(DEFAULTS);
});

test("every bad key has a line: file and line, path, fault, and the keys or values that may stand there", () => {
  const file = inFile("listen:\n  port: 65536\n  prot: 1\n  zone: a\nlog: { level: worn }\n");
  expect(() => loadConfig(schema, file)).toThrow(ConfigError);
  expect(messageOf(() => loadConfig(schema, file)).split("\n")).toEqual([
    `${file}:2: listen.port: Too big: expected number to be <=65535`,
    `${file}:3: listen.prot: unknown key (did you mean port?); known here: host, port`,
    `${file}:4: listen.zone: unknown key; known here: host, port`,
    `${file}:5: log.level: expected debug or info or warn or error, not "worn" (did you mean warn?)`,
  ]);
});

test("a missing key is described, and a section's own rule is checked beside other faults", () => {
  const option = (kind: string, name: string) =>
    z.strictObject({ kind: z.literal(kind), [name]: z.string().describe("A name.") });
  const kinds = z.discriminatedUnion("kind", [option("a", "one"), option("b", "two")]);
  const ruled = z
    .strictObject({ of: z.array(kinds), most: z.int().default(1) })
    .refine(({ of, most }) => of.length <= most, { error: "too many", path: ["of"] });
  const lines = (text: string) => messageOf(() => loadConfig(ruled, inFile(text))).replaceAll(`${folder}/a.yaml:`, "");
  expect(lines("of:\n  - kind: b\n    one: x")).toBe(
    "2: of.0.two: missing: A name.\n3: of.0.one: unknown key; known here: kind, two",
  );
  expect(lines("of:\n  - { kind: a, one: x }\n  - { kind: a, one: y }\nmots: 3")).toBe(
    "4: mots: unknown key (did you mean most?); known here: of, most\n1: of: too many",
  );
});

test("a document that is no mapping is wrong at its root", () => {
  expect(messageOf(() => parseConfig(schema, "[]", "a.yaml"))).toMatch(/^a\.yaml: \(root\): /);
});

test("a file that is missing and one that is not YAML are named", () => {
  const none = join(folder, "none.yaml");
  expect(() => loadConfig(schema, none)).toThrow(ConfigError);
  expect(messageOf(() => loadConfig(schema, none))).toMatch(/none\.yaml: ENOENT/);
  expect(messageOf(() => parseConfig(schema, "listen: [", "a.yaml"))).toMatch(/^a\.yaml: /);
  expect(() => parseConfig(schema, "listen: [", "a.yaml")).toThrow(ConfigError);
});

test("values come from the environment, in the kind that the setting has", () => {
  const text = [
    "listen:",
    `  host: \${HOST}`,
    `  port: \${PORT:-9}`,
    "log:",
    `  level: \${LEVEL:-info}`,
    `# a comment may name \${NOTHING}`,
  ].join("\n");
  const env = { HOST: "0.0.0.0", PORT: "81", LEVEL: "" };
  expect(loadConfig(schema, inFile(text), env)).toEqual({
    listen: { host: "0.0.0.0", port: 81 },
    log: { level: "info", format: "auto" },
  });
  expect(loadConfig(schema, inFile(text), { HOST: "a" }).listen).toEqual({ host: "a", port: 9 });
});

test("a reference within a text, a number in quotation marks and an escaped one stay texts", () => {
  const texts = z.strictObject({ list: z.array(z.string()) });
  const file = inFile(`list: ["\${A}-\${B}", "\${ONE}", "$\${A}", "\${EMPTY}", "a $ b"]`);
  const env = { A: "x", B: "y: {z}", ONE: "1", EMPTY: "" };
  expect(loadConfig(texts, file, env)).toEqual({ list: ["x-y: {z}", "1", `\${A}`, "", "a $ b"] });
});

test("every unset variable and malformed reference is named with the path of its key", () => {
  const file = inFile(`listen: { host: '\${HOST}-\${ZONE}' }\nlog: { level: '\${a b}' }\nlist: [1, '\${LAST}']`);
  expect(messageOf(() => loadConfig(schema, file)).split("\n")).toEqual([
    `${file}: listen.host: the environment has no HOST`,
    `${file}: listen.host: the environment has no ZONE`,
    `${file}: log.level: expected \${NAME} or \${NAME:-text}; $\${ stands for a plain \${`,
    `${file}: list.1: the environment has no LAST`,
  ]);
});

function messageOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof Error) return error.message;
  }
  throw new Error("nothing was thrown");
}
