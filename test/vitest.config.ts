import { defineConfig } from "vitest/config";

const project = (name: string, extra: object = {}) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], ...extra },
});

/** Tests that start processes or servers get time for it; none asserts on how long something took. */
const slow = { testTimeout: 60_000, hookTimeout: 120_000 };

export default defineConfig({
  test: {
    root: new URL("..", import.meta.url).pathname,
    projects: [
      project("unit"),
      project("golden"),
      project("integration", slow),
      project("contract", slow),
      // Of processes and what is one for each of them: listeners of the process, children, its memory.
      project("process", slow),
      // The demonstration model, inferring.
      project("model", slow),
      project("browser", slow),
      // Only where a real counterpart has been started; see the files there.
      ...(process.env.SVC_TEST_LLAMA_SERVER ? [project("real", slow)] : []),
      project("start", { ...slow, fileParallelism: false, globalSetup: ["test/support/processes/build.ts"] }),
      // Whole fleets of processes: one file at a time.
      project("fault", {
        testTimeout: 600_000,
        hookTimeout: 120_000,
        fileParallelism: false,
        globalSetup: ["test/support/processes/build.ts"],
      }),
    ],
  },
});
