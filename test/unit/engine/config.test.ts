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

test("a simulator needs nothing but its kind", () => {
  const config = load("models: [m]\nbackend: { kind: simulator }\n");
  expect(config.backend).toMatchObject({ kind: "simulator", tokensPerSecond: 50, jitter: 0, failure: "none" });
  expect(config.maxStepAgeMs).toBe(30_000);
  expect(config.tls).toBeUndefined();
});

test("a failure can be injected, and TLS be enabled", () => {
  const config = load(
    "models: [m]\nbackend: { kind: simulator, failure: { afterTokens: 3 } }\ntls: { certFile: a, keyFile: b }\n",
  );
  expect(config.backend).toMatchObject({ failure: { afterTokens: 3 } });
  expect(config.tls).toEqual({ certFile: "a", keyFile: "b" });
});

test.each([
  ["a rate of zero", "backend: { kind: simulator, tokensPerSecond: 0 }", "backend.tokensPerSecond"],
  ["an unknown key", "backend: { kind: simulator, speed: 1 }", "backend"],
  [
    "an empty range of answer lengths",
    "backend: { kind: simulator, answerTokens: { min: 9, max: 1 } }",
    "backend.answerTokens",
  ],
  [
    "an allow-list without client certificates",
    "backend: { kind: simulator }\ntls: { certFile: a, keyFile: b, allowedClientNames: [c] }",
    "tls.allowedClientNames",
  ],
  ["half of TLS", "backend: { kind: simulator }\ntls: { certFile: a }", "tls.keyFile"],
  ["a sampling ratio above 1", "backend: { kind: simulator }\ntracing: { samplingRatio: 2 }", "tracing.samplingRatio"],
  ["a stall limit of zero", "backend: { kind: simulator }\nmaxStepAgeMs: 0", "maxStepAgeMs"],
])("%s stops the start, with its path", (_, yaml, path) => {
  expect(() => load(`models: [m]\n${yaml}\n`)).toThrow(`engine.yaml: ${path}: `);
});
