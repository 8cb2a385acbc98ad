import { expect, test } from "vitest";
import { acceleratorFault } from "../../../../../../engine/backends/llama/runtime/accelerator-trial.ts";

const TRIAL = { gpu: "cuda", modelPath: "model.gguf", library: "file:///none.js" };
const never = new AbortController().signal;

/** What a process does in place of computing, and what is told of it. */
const ENDS: readonly (readonly [string, string, string | undefined])[] = [
  ["computes", `if (process.argv[1] !== "cuda") process.exit(2)`, undefined],
  [
    "is ended by llama.cpp",
    `console.error("[node-llama-cpp] CUDA error: no kernel fits\\n  current device: 0\\n/src/cuda.cu:1: CUDA error"); process.abort()`,
    "CUDA error: no kernel fits",
  ],
  ["ends without a word", "process.exit(3)", "its process ended with 3"],
  ["is killed", `process.kill(process.pid, "SIGKILL")`, "its process ended with SIGKILL"],
];

test.each(ENDS)("a trial that %s tells why", async (_name, program, fault) => {
  expect(await acceleratorFault(TRIAL, never, program)).toEqual(fault);
});

test("a trial ends with the start that it belongs to", async () => {
  const start = new AbortController();
  const trial = acceleratorFault(TRIAL, start.signal, "setInterval(() => {}, 1000)");
  start.abort();
  expect(await trial).toContain("ended with");
});
