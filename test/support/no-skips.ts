import type { Reporter, TestModule } from "vitest/node";

/**
 * Fails a run in which a test was skipped, with the test's name: on a machine that has all that the tests ask for, a
 * skip is a check that was lost. Only tests with "GPU" in their names may be skipped.
 */
export class NoSkips implements Reporter {
  /** Fails the run where a test was skipped. */
  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = modules
      .flatMap((module) =>
        [...module.children.allTests("skipped")].map((test) => `${module.relativeModuleId}: ${test.fullName}`),
      )
      .filter((name) => !name.includes("GPU"));
    if (skipped.length === 0) return;
    process.stderr.write(`${skipped.join("\n")}\n${skipped.length} tests were skipped, and none may be\n`);
    process.exitCode = 1;
  }
}
