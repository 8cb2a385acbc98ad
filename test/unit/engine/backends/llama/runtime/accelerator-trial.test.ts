import { expect, test } from "vitest";
import { acceleratorFault } from "../../../../../../engine/backends/llama/runtime/accelerator-trial.ts";

const never = new AbortController().signal;

/** What a process does in place of computing, and what is told of it. */
const ENDS: readonly (readonly [string, string, string | undefined])[] = [
  ["is given the accelerator and computes", `if (process.argv[1] !== "cuda") process.abort()`, undefined],
  [
    "is ended by llama.cpp",
    `console.error("[node-llama-cpp] CUDA error: no kernel fits\\n  current device: 0\\n/cuda.cu:1: CUDA error"); process.abort()`,
    "CUDA error: no kernel fits",
  ],
  ["is ended without a word", "process.abort()", "its process ended with SIGABRT"],
  ["fails as loading the model will", `throw new Error("CUDA error: no room")`, undefined],
];

test.each(ENDS)("a trial that %s tells why", async (_name, program, fault) => {
  expect(await acceleratorFault("cuda", never, program)).toEqual(fault);
});

test("a trial ends with the start that it belongs to, and blames nothing", async () => {
  const start = new AbortController();
  const trial = acceleratorFault("cuda", start.signal, "setInterval(() => {}, 1000)");
  start.abort();
  expect(await trial).toBeUndefined();
});
