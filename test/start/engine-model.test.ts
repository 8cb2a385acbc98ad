import { join } from "node:path";
import { expect, test } from "vitest";
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
