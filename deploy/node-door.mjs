import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The project's folder, also as an installed package. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * The door of all programs: returns why this Node cannot run them, by `engines` of package.json; undefined if it can.
 * This is JavaScript that an old Node can run.
 */
export function unfitNode() {
  const [, major, minor] = /(\d+)\.(\d+)/.exec(
    JSON.parse(readFileSync(join(root, "package.json"), "utf8")).engines.node,
  );
  const [haveMajor, haveMinor] = process.versions.node.split(".");
  const isOlder = Number(haveMajor) < Number(major) || (haveMajor === major && Number(haveMinor) < Number(minor));
  return isOlder ? `Node ${process.versions.node} is too old: this needs Node ${major}.${minor} or later` : undefined;
}
