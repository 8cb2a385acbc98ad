import { execFileSync } from "node:child_process";
import { join } from "node:path";

/** Builds once before tests that start the programs as users do. */
export function setup(): void {
  const root = join(import.meta.dirname, "../../..");
  execFileSync(process.execPath, [join(root, "deploy/build.mjs")], { stdio: "inherit" });
}
