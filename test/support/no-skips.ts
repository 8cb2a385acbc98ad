import type { Reporter, TestModule } from "vitest/node";

/** Fails a run with skipped tests, and names them: a skip is a lost check. Only "GPU" tests may be skipped. */
export class NoSkips implements Reporter {
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
