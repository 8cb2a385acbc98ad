import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Returns the folder of package.json: built code lies one folder deeper than its source, so it is looked for upwards.
 */
export function projectFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json")) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}

/** Returns the version of what is installed; `unknown` where no package.json is near. */
export function packageVersion(): string {
  const file = join(projectFolder(), "package.json");
  return existsSync(file) ? String(JSON.parse(readFileSync(file, "utf8")).version) : "unknown";
}

/** Returns what `--version` of one of our programs prints: `svc-gateway 0.1.0`. */
export function programVersion(program: string): string {
  return `svc-${program} ${packageVersion()}`;
}
