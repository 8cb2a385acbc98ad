import type { Reporter } from "vitest/node";

/**
 * Tells the process that has started vitest how the tests ended (`test/run.mjs`): `true` where all have passed. What is
 * closed behind them says nothing of them, and has been seen not to end.
 */
export class TellsEnd implements Reporter {
  /** Tells whether the run was a good one, by the reporters before this one, too. */
  onTestRunEnd(_modules: unknown, _errors: unknown, reason: "passed" | "failed" | "interrupted"): void {
    process.send?.(reason === "passed" && !process.exitCode);
  }
}
