import { expect, test } from "vitest";
import type { LlamaOptions } from "../../engine/backends/llama/llama-options.ts";
import { ask, missing, request, startBackend } from "../support/engine/demo-engine.ts";

const SETUPS: readonly (readonly [string, Partial<LlamaOptions>])[] = [
  ["as shipped", {}],
  ["without flash attention", { flashAttention: false }],
  ["with flash attention", { flashAttention: true }],
  ["with GPU layers but no accelerator", { gpuLayers: 2 }],
];

test.skipIf(missing !== "").each(SETUPS)("a node %s answers, and reports its setup", async (_name, options) => {
  const backend = await startBackend({ slots: 1, gpu: false, ...options });
  try {
    const { text } = await ask(backend, request("Hello!", { maxOutputTokens: 8 }));
    expect(text).not.toBe("");
    const attention = { auto: "where it can", true: "on", false: "off" }[`${options.flashAttention ?? "auto"}`];
    const setup = `CPU, threads 1, flash attention ${attention}, model file mapped`;
    expect(backend.describe().engineVersion.replace(/^llama\.cpp [\w.]+; /, "")).toBe(setup);
  } finally {
    await backend.close();
  }
});
