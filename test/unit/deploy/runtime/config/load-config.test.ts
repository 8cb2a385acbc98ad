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
const DEFAULTS = { listen: { host: "127.0.0.1", port: 8080 }, log: { level: "info" } };

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

test("every bad key has a line with the file and its path", () => {
  const file = inFile("listen: { port: 65536, hots: a }\nlog: { level: loud }\n");
  expect(() => loadConfig(schema, file)).toThrow(ConfigError);
  const lines = messageOf(() => loadConfig(schema, file)).split("\n");
  expect(lines.map((line) => line.split(": ").slice(0, 2).join(": ")).sort()).toEqual(
    [`${file}: listen`, `${file}: listen.port`, `${file}: log.level`].sort(),
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
    log: { level: "info" },
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
