import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { DEMO_MODEL, missing } from "../support/engine/demo-engine.ts";
import { FleetProcess } from "../support/processes/fleet-process.ts";

test.each([
  [join(import.meta.dirname, "no-such-model.gguf"), (path: string) => `there is no file ${path}`],
  [import.meta.filename, (path: string) => `${path} is no GGUF file`],
  [import.meta.dirname, (path: string) => `${path} cannot be read (EISDIR)`],
])("with the model file %s an engine node ends with code 2 and the setting's name", async (modelPath, why) => {
  const backend = { kind: "llama", modelPath };
  const config = { nodeId: "n", models: ["svc-qwen"], listen: { port: 0 }, metrics: { port: 0 }, backend };
  const started = FleetProcess.start("engine/main.js", config);
  await expect(started).rejects.toThrow("ended with 2");
  await expect(started).rejects.toThrow(`engine: backend.modelPath: ${why(modelPath)}`);
});

test.skipIf(missing !== "")(`a node says how much of its weights is loaded ${missing}`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-load-"));
  const backend = { kind: "llama", modelPath: DEMO_MODEL };
  const file = join(folder, "engine.yaml");
  writeFileSync(file, JSON.stringify({ models: ["m"], listen: { port: 0 }, metrics: { port: 0 }, backend }));
  const main = join(import.meta.dirname, "../../dist/engine/main.js");
  const node = spawn(process.execPath, [main, "--config", file], { stdio: ["ignore", "pipe", "ignore"] });
  const ended = once(node, "exit");
  const lines: string[] = [];
  for await (const line of createInterface({ input: node.stdout })) {
    if (line.startsWith("ready ")) break;
    lines.push(line);
  }
  node.kill();
  await ended;
  rmSync(folder, { recursive: true });
  expect(lines.at(-1)).toBe("loading 100 %");
  expect(lines).toEqual([...new Set(lines)].filter((line) => /^loading \d+0 %$/.test(line)));
});
