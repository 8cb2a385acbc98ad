import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/**
 * Clones the source of llama.cpp that its package carries, which has public chat templates and vocabularies of models,
 * into an empty folder. Returns a reader of its files. Throws without git.
 */
export function llamaCppSource(folder: string): (path: string) => Buffer {
  const entry = createRequire(import.meta.url).resolve("node-llama-cpp");
  const bundle = join(dirname(entry), "../llama/gitRelease.bundle");
  execFileSync("git", ["clone", "--quiet", "--bare", bundle, folder], { stdio: "ignore" });
  return (path) => execFileSync("git", ["-C", folder, "show", `HEAD:${path}`], { maxBuffer: 1 << 28 });
}
