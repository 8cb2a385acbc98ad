import { spawnSync } from "node:child_process";

/** Why tests with promtool are skipped; the empty text where they are not. It comes with Prometheus. */
export const noPromtool = spawnSync("promtool", ["--version"]).error ? "there is no promtool" : "";

/** Runs promtool, with `input` as its standard input, and returns its exit code and all that it said. */
export function promtool(args: readonly string[], input = ""): { readonly code: number | null; readonly said: string } {
  const { status, stdout, stderr } = spawnSync("promtool", args, { input, encoding: "utf8" });
  return { code: status, said: `${stdout}${stderr}` };
}
