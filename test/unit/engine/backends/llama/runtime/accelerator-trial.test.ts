import { expect, test } from "vitest";
import { acceleratorFault } from "../../../../../../engine/backends/llama/runtime/accelerator-trial.ts";

const never = new AbortController().signal;

/** The behaviour of the trial process, and the reported fault. */
const ENDS: readonly (readonly [string, string, string | undefined])[] = [
  ["receives the accelerator and computes", `if (process.argv[1] !== "cuda") process.abort()`, undefined],
  [
    "llama.cpp aborts",
    `console.error("[node-llama-cpp] CUDA error: no kernel fits\\n  current device: 0\\n/cuda.cu:1: CUDA error"); process.abort()`,
    "CUDA error: no kernel fits",
  ],
  ["aborts without a message", "process.abort()", "its process ended with SIGABRT"],
  ["fails as loading the model will", `throw new Error("CUDA error: no room")`, undefined],
];

test.each(ENDS)("a trial that %s reports the fault", async (_name, program, fault) => {
  expect(await acceleratorFault("cuda", never, program)).toEqual(fault);
});

test("a trial ends with its startup, and reports no fault", async () => {
  const start = new AbortController();
  const trial = acceleratorFault("cuda", start.signal, "setInterval(() => {}, 1000)");
  start.abort();
  expect(await trial).toBeUndefined();
});
