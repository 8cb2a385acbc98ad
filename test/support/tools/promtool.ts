import { spawnSync } from "node:child_process";

/** The reason why tests with promtool, a part of Prometheus, are skipped; empty if they are not. */
export const noPromtool = spawnSync("promtool", ["--version"]).error ? "there is no promtool" : "";

export function promtool(args: readonly string[], input = ""): { readonly code: number | null; readonly said: string } {
  const { status, stdout, stderr } = spawnSync("promtool", args, { input, encoding: "utf8" });
  return { code: status, said: `${stdout}${stderr}` };
}
