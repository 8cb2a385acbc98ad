import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ConfigError, loadConfig } from "../../../../../deploy/runtime/config/load-config.ts";
import { createOpenAiCompatible } from "../../../../../engine/backends/openai-compatible/create.ts";
import { engineConfigSchema, type OpenAiCompatibleConfig } from "../../../../../engine/config.ts";

const folder = mkdtempSync(join(tmpdir(), "create-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function configOf(backend: object): OpenAiCompatibleConfig {
  const file = join(folder, "engine.yaml");
  // JSON is YAML.
  const whole = {
    kind: "openai-compatible",
    dialect: "vllm",
    profile: "qwen3",
    baseUrl: "http://127.0.0.1:8000",
    ...backend,
  };
  writeFileSync(file, JSON.stringify({ models: ["svc-qwen"], backend: whole }));
  const config = loadConfig(engineConfigSchema, file).backend;
  if (config.kind !== "openai-compatible") throw new Error("another kind");
  return config;
}

test("a short configuration is enough, and its models are known before the engine is up", () => {
  const backend = createOpenAiCompatible(configOf({}), "n1", ["svc-qwen"]);
  expect(backend.describe().models.map(({ id }) => id)).toEqual(["svc-qwen"]);
  expect(backend.load()).toEqual({ slots: 256, busySlots: 0, waiting: 0 });
});

test.each([
  ["an unknown dialect", { dialect: "tgi" }, /backend.dialect/],
  ["an unknown key", { colour: "red" }, /backend.*colour/s],
  ["an address that is none", { baseUrl: "engine:8000" }, /backend.baseUrl/],
  ["an unknown profile", { profile: "nope" }, /no model profile/],
  ["a key file that is not there", { apiKeyFile: join(folder, "none") }, /backend.apiKeyFile/],
])("%s stops the start", (_what, fields, message) => {
  const start = () => createOpenAiCompatible(configOf(fields), "n1", ["svc-qwen"]);
  expect(start).toThrow(ConfigError);
  expect(start).toThrow(message);
});

test("a key file has to hold one key", () => {
  const file = join(folder, "key");
  const start = () => createOpenAiCompatible(configOf({ apiKeyFile: file }), "n1", ["svc-qwen"]);
  writeFileSync(file, "sk-1\n");
  expect(start).not.toThrow();
  for (const bad of ["", "two words", "a\nb"]) {
    writeFileSync(file, bad);
    expect(start).toThrow("backend.apiKeyFile: holds no key.");
  }
});
