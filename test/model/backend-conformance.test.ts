import { describe } from "vitest";
import { backendConformance } from "../support/engine/backend-conformance.ts";
import { missing, startBackend } from "../support/engine/demo-engine.ts";

describe.skipIf(missing !== "")("llama.cpp", () => {
  backendConformance("the demonstration model in process", {
    model: "demo",
    prompt: "Count from 1 to 12.",
    endlessPrompt: "Count from 1 to 75",
    start: async () => {
      const backend = await startBackend({ nodeId: "n1", slots: 2, queueLength: 0 });
      return { backend, stop: () => backend.close() };
    },
  });
});
