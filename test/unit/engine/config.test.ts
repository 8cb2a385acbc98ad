import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadConfig } from "../../../deploy/runtime/config/load-config.ts";
import { engineConfigSchema } from "../../../engine/config.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-config-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function load(yaml: string) {
  const file = join(folder, "engine.yaml");
  writeFileSync(file, yaml);
  return loadConfig(engineConfigSchema, file);
}

test("a node needs nothing but its models and a backend", () => {
  const config = load("models: [m]\nbackend: { kind: scripted }\n");
  expect(config).toMatchObject({ nodeId: "engine", maxStepAgeMs: 30_000, backend: { kind: "scripted" } });
  expect(config.tls).toBeUndefined();
});

test.each([
  ["no slots", "backend: { kind: llama, modelPath: m, slots: 0 }", "backend.slots"],
  ["an unknown key", "backend: { kind: scripted, speed: 1 }", "backend.speed"],
  ["an unknown kind", "backend: { kind: simulator }", "backend.kind"],
  [
    "an allow-list without client certificates",
    "backend: { kind: scripted }\ntls: { certFile: a, keyFile: b, allowedClientNames: [c] }",
    "tls.allowedClientNames",
  ],
  ["half of TLS", "backend: { kind: scripted }\ntls: { certFile: a }", "tls.keyFile"],
  ["a sampling ratio above 1", "backend: { kind: scripted }\ntracing: { samplingRatio: 2 }", "tracing.samplingRatio"],
  ["a stall limit of zero", "backend: { kind: scripted }\nmaxStepAgeMs: 0", "maxStepAgeMs"],
])("%s stops the start, with its path", (_, yaml, path) => {
  expect(() => load(`models: [m]\n${yaml}\n`)).toThrow(new RegExp(`engine\\.yaml:\\d: ${path}: `));
});
