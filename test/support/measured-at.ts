import { execFileSync } from "node:child_process";

/** Returns the line by which a page with figures names the day and the commit, and whether files differ from that. */
export function measuredAt(): string {
  const git = (...args: readonly string[]) => execFileSync("git", args, { encoding: "utf8" }).trim();
  const changed = git("status", "--porcelain", "--untracked-files=no") === "" ? "" : " with changes";
  const day = new Date().toISOString().slice(0, 10);
  return `Measured on ${day} at ${git("rev-parse", "--short=12", "HEAD")}${changed}, Node ${process.versions.node}.`;
}
