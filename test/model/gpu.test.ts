import { describe, expect, onTestFinished, test } from "vitest";
import { tool } from "../support/engine/canonical.ts";
import { ask, GPU, missing, request, startBackend } from "../support/engine/demo-engine.ts";

/*
 * Results of an accelerator. These tests, and all others of this folder, use the one in SVC_TEST_GPU:
 * `SVC_TEST_GPU=cuda npx vitest run -c test/vitest.config.ts test/model`.
 */
const absent = GPU === false ? "SVC_TEST_GPU names no accelerator" : missing;
if (absent !== "") process.stderr.write(`skipping tests with a GPU: ${absent}\n`);

/** One question per kind of answer, and two with long answers. */
const REQUESTS = [
  request("Hello!", { maxOutputTokens: 32 }),
  request("What is the weather in Paris?", { tools: [tool("get_weather", "Tells the weather of a city.")] }),
  request("Write a haiku about rain.", { maxOutputTokens: 96 }),
  request(`Repeat: ${"one two three four five six seven ".repeat(40)}`, { maxOutputTokens: 96 }),
];

async function started(options: Parameters<typeof startBackend>[0] = {}) {
  const backend = await startBackend(options);
  onTestFinished(() => backend.close());
  return backend;
}

describe.skipIf(absent !== "")("a node with a GPU", () => {
  test("a node with a GPU loads all layers of a model that fits, and reports the memory in use", async () => {
    const backend = await started();
    expect(backend.describe().engineVersion).toMatch(
      new RegExp(`; ${GPU} \\(.+\\) with 7 of 7 layers, KV memory .+, threads 1, `),
    );
    expect(await backend.gpuMemoryBytes()).toBeGreaterThan(5_000_000);
  });

  test("a node with a GPU leaves the excluded layers to the CPU", async () => {
    const backend = await started({ gpuLayers: 2 });
    expect(backend.describe().engineVersion).toMatch(new RegExp(`; ${GPU} \\(.+\\) with 2 of 7 layers, `));
    expect((await ask(backend, request("Hello!", { maxOutputTokens: 8 }))).text).not.toBe("");
  });

  test("a node with a GPU gives the same answers as the CPU, sequentially and concurrently", async () => {
    const [processor, accelerator] = [await started({ gpu: false }), await started()];
    const wanted = await Promise.all(REQUESTS.map((one) => ask(processor, one)));
    const alone = [];
    for (const one of REQUESTS) alone.push(await ask(accelerator, one));
    const together = await Promise.all(REQUESTS.map((one) => ask(accelerator, one)));
    const answersOf = (replies: typeof wanted) =>
      replies.map(({ text, calls, finished }) => [text, calls, finished.reason]);
    expect(answersOf(alone)).toEqual(answersOf(wanted));
    expect(answersOf(together)).toEqual(answersOf(wanted));
  });
});
