import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Returns the folder of package.json, searched upwards: built code is one folder deeper than its source. */
export function projectFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json")) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}

export function packageVersion(): string {
  const file = join(projectFolder(), "package.json");
  return existsSync(file) ? String(JSON.parse(readFileSync(file, "utf8")).version) : "unknown";
}

export function programVersion(program: string): string {
  return `svc-${program} ${packageVersion()}`;
}
