import { join } from "node:path";
import { expect, test } from "vitest";
import { FleetProcess } from "../support/processes/fleet-process.ts";

test("without its model file an engine node ends with code 2 and the setting's name", async () => {
  const modelPath = join(import.meta.dirname, "no-such-model.gguf");
  const backend = { kind: "llama", modelPath };
  const config = { nodeId: "n", models: ["svc-qwen"], listen: { port: 0 }, metrics: { port: 0 }, backend };
  const started = FleetProcess.start("engine/main.js", config);
  await expect(started).rejects.toThrow("ended with 2");
  await expect(started).rejects.toThrow(`engine: backend.modelPath: there is no file ${modelPath}`);
});

test("with a file that holds no weights, or a folder, it ends with code 2 as well", async () => {
  for (const [modelPath, why] of [
    [import.meta.filename, "is no GGUF file"],
    [import.meta.dirname, "cannot be read (EISDIR)"],
  ] as const) {
    const backend = { kind: "llama", modelPath };
    const config = { nodeId: "n", models: ["svc-qwen"], listen: { port: 0 }, metrics: { port: 0 }, backend };
    const started = FleetProcess.start("engine/main.js", config);
    await expect(started).rejects.toThrow("ended with 2");
    await expect(started).rejects.toThrow(`engine: backend.modelPath: ${modelPath} ${why}`);
  }
});
