import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { EndReporter } from "./support/end-reporter.ts";
import { NoSkips } from "./support/no-skips.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

type TestOptions = NonNullable<TestProjectInlineConfiguration["test"]>;

/**
 * How large the tests of a lane are, which `test/support/size.ts` hands them: `quick` in `npm test`, `exhaustive` in
 * the lane of that name, `promised` for the sizes that the service promises, which take a larger machine.
 */
export type Size = "quick" | "exhaustive" | "promised";

/** FULL=1 gives every lane the promised sizes. */
const FULL = process.env.FULL === "1";

/**
 * A lane: a folder below test/, and how its files are run. Time limits are for busy machines: no test asserts on time.
 */
function lane(name: string, options: TestOptions): TestProjectInlineConfiguration {
  const size: Size = FULL ? "promised" : "quick";
  const limits = { testTimeout: 60_000, hookTimeout: 120_000, expect: { poll: { timeout: 50_000 } } };
  return { test: { name, include: [`test/${name}/**/*.test.ts`], provide: { size }, ...limits, ...options } };
}

/**
 * Files that share a process and its modules with those before them: most of the time of a small test is the start of a
 * process and the reading of modules. They change nothing of the process (listeners, environment, working directory).
 * Not a thread: one of Node 20 that has had many sockets may turn round for ever where it is to end (one run of eight),
 * which takes a processor from all other tests and keeps vitest from ending; a process is killed.
 */
const processes = { pool: "forks", isolate: false } as const;

/** Files that each have a process to themselves. */
const isolated = { pool: "forks", isolate: true } as const;

/** The built programs as processes of their own. */
const programs = { ...processes, globalSetup: ["test/support/processes/build.ts"] };

/** Files of `npm test` that do more in the exhaustive lane. */
function filesWithSizes(): string[] {
  return readdirSync(join(ROOT, "test"), { recursive: true, encoding: "utf8" })
    .filter((file) => /^(?:unit|golden|contract|integration|process)\b.*\.test\.ts$/.test(file))
    .map((file) => join("test", file))
    .filter((file) => readFileSync(join(ROOT, file), "utf8").includes('/support/size.ts"'));
}

const NEWEST_SDKS = process.env.SVC_TEST_NEWEST_SDKS;

/** The packages of `test/newest-sdks/package.json`, as they are found in the folder that they were installed into. */
function newestSdks(folder: string): Record<string, string> {
  const listed = readFileSync(join(ROOT, "test/newest-sdks/package.json"), "utf8");
  const { dependencies } = JSON.parse(listed) as { readonly dependencies: Readonly<Record<string, string>> };
  const names = Object.keys(dependencies).filter((name) => name !== "zod");
  return Object.fromEntries(names.map((name) => [name, join(folder, "node_modules", name)]));
}

export default defineConfig({
  test: {
    root: ROOT,
    experimental: { fsModuleCache: true },
    maxWorkers: availableParallelism(),
    // `.ci/run` sees to it that nothing is missing, and asks that nothing is skipped.
    reporters: ["default", ...(process.env.SVC_TEST_NO_SKIPS ? [new NoSkips()] : []), new EndReporter()],
    projects: [
      // `npm test`
      lane("unit", processes),
      lane("golden", processes),
      lane("contract", processes),
      lane("integration", processes),
      lane("process", isolated),
      // `npm run test:rest`
      lane("exhaustive", {
        ...isolated,
        include: filesWithSizes(),
        provide: { size: FULL ? "promised" : "exhaustive" },
        testTimeout: 300_000,
      }),
      // The wire that is not the default one passes the tables of the other.
      lane("other-wire", {
        ...processes,
        include: [
          "test/integration/upstream/{continuation,router,upstream-tls}.test.ts",
          "test/integration/http/{stream-framing,streaming}.test.ts",
        ],
        env: { SVC_TEST_WIRE: "grpc" },
      }),
      lane("model", processes),
      lane("browser", isolated),
      lane("deploy", processes),
      lane("start", programs),
      lane("fault", { ...programs, testTimeout: 600_000 }),
      // `test/newest-sdks/run`
      ...(NEWEST_SDKS
        ? [
            lane("newest-sdks", {
              ...processes,
              include: ["test/contract/sdk/**/*.test.ts"],
              alias: newestSdks(NEWEST_SDKS),
            }),
          ]
        : []),
      // `test/engines/run`
      ...(process.env.SVC_TEST_ENGINES ? [lane("engines", { ...isolated, testTimeout: 180_000 })] : []),
      // `test/kubernetes/run`
      ...(process.env.SVC_TEST_KUBERNETES ? [lane("kubernetes", { ...isolated, testTimeout: 300_000 })] : []),
    ],
  },
});
