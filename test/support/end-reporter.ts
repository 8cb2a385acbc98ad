import type { Reporter } from "vitest/node";

/**
 * Reports the result of the tests to the parent process of vitest (`test/run.mjs`): `true` if all have passed. Closing
 * the remaining resources is no part of the result, and has been seen to hang.
 */
export class EndReporter implements Reporter {
  onTestRunEnd(_modules: unknown, _errors: unknown, reason: "passed" | "failed" | "interrupted"): void {
    process.send?.(reason === "passed" && !process.exitCode);
  }
}
