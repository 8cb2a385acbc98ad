import type { Reporter } from "vitest/node";

/** Lines of progress in a run. */
const LINES = 20;

/**
 * Says how many files are done where standard output is no terminal, on which vitest says it. Reports the result of the
 * tests to the parent process of vitest (`test/run.mjs`): `true` if all have passed. Closing the remaining resources is no
 * part of the result, and has been seen to hang.
 */
export class EndReporter implements Reporter {
  #files = 0;
  #done = 0;

  onTestRunStart({ length }: readonly unknown[]): void {
    this.#files = length;
  }

  onTestModuleEnd(): void {
    this.#done += 1;
    const line = Math.floor((this.#done * LINES) / this.#files);
    if (process.stdout.isTTY || this.#files <= LINES || line === Math.floor(((this.#done - 1) * LINES) / this.#files))
      return;
    process.stderr.write(`${this.#done} of ${this.#files} files\n`);
  }

  onTestRunEnd(_modules: unknown, _errors: unknown, reason: "passed" | "failed" | "interrupted"): void {
    process.send?.(reason === "passed" && !process.exitCode);
  }
}
