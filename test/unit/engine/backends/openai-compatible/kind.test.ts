import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ConfigError, loadConfig } from "../../../../../deploy/runtime/config/load-config.ts";
import type { Backend } from "../../../../../engine/backend.ts";
import { openAiCompatible } from "../../../../../engine/backends/openai-compatible/kind.ts";
import { engineConfigSchema } from "../../../../../engine/config.ts";
import { workHere } from "../../../../support/engine/work-here.ts";

const folder = mkdtempSync(join(tmpdir(), "kind-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Creates the backend of a configuration file with these keys. */
async function create(backend: object): Promise<Backend> {
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
  return openAiCompatible.create(config, { nodeId: "n1", models: ["svc-qwen"] }, workHere);
}

test("a minimal configuration suffices, and its models are known before the engine is up", async () => {
  const backend = await create({});
  expect(backend.describe().models.map(({ id }) => id)).toEqual(["svc-qwen"]);
  expect(backend.load()).toEqual({ slots: 256, busySlots: 0, waiting: 0, queuedUncachedTokens: 0 });
});

test.each([
  ["an unknown dialect", { dialect: "tgi" }, /backend.dialect/],
  ["an unknown key", { colour: "red" }, /backend.*colour/s],
  ["an address that is none", { baseUrl: "engine:8000" }, /backend.baseUrl/],
  ["an unknown profile", { profile: "nope" }, /no model profile/],
  [
    "a tokenizer file that is not there",
    { tokenizerFile: join(folder, "none") },
    /backend.tokenizerFile: cannot be read/,
  ],
  ["a tokenizer file that is none", { tokenizerFile: join(folder, "engine.yaml") }, /backend.tokenizerFile: is no/],
  ["a key file that is not there", { apiKeyFile: join(folder, "none") }, /backend.apiKeyFile/],
])("%s stops the start", async (_what, fields, message) => {
  const failure = await create(fields).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ConfigError);
  expect(String(failure)).toMatch(message);
});

test("a key file must hold one key", async () => {
  const file = join(folder, "key");
  writeFileSync(file, "sk-1\n", { mode: 0o600 });
  await expect(create({ apiKeyFile: file })).resolves.toBeDefined();
  for (const bad of ["", "two words", "a\nb"]) {
    writeFileSync(file, bad);
    await expect(create({ apiKeyFile: file })).rejects.toThrow("backend.apiKeyFile: holds no key.");
  }
});

test.skipIf(process.getuid === undefined)("a key file that other users can read or write stops the start", async () => {
  const file = join(folder, "shared");
  const link = join(folder, "..data");
  writeFileSync(file, "sk-1\n");
  symlinkSync(file, link);
  for (const [mode, isTaken] of [
    [0o600, true],
    [0o400, true],
    // As Kubernetes mounts secrets for a pod's group, through links.
    [0o440, true],
    [0o640, true],
    [0o644, false],
    [0o660, false],
    [0o602, false],
  ] as const) {
    chmodSync(file, mode);
    for (const apiKeyFile of [file, link]) {
      const failure = await create({ apiKeyFile }).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (isTaken) expect(failure, mode.toString(8)).toBeUndefined();
      else {
        expect(failure).toBeInstanceOf(ConfigError);
        expect(String(failure)).toMatch(/backend\.apiKeyFile: .* is open to other users/);
      }
    }
  }
});
