import { execFileSync } from "node:child_process";
import { join } from "node:path";

/** Set to the id of the vitest process that has built: several lanes need the build, with separate modules. */
const BUILT_BY = "SVC_TEST_BUILT_BY";

/** Builds the programs once, before tests that start them as users do. */
export function setup(): void {
  const id = String(process.pid);
  if (process.env[BUILT_BY] === id) return;
  const root = join(import.meta.dirname, "../../..");
  execFileSync(process.execPath, [join(root, "deploy/build.mjs")], { stdio: "inherit" });
  process.env[BUILT_BY] = id;
}
