/** As `engines` of package.json says it. */
const LEAST = [20, 19] as const;

/** Why the service does not run on this Node, in one line; undefined: it does. `version`: as `process.versions.node`. */
export function unfitNode(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > LEAST[0] || (major === LEAST[0] && minor >= LEAST[1])) return undefined;
  return `Node ${version} is too old: this needs Node ${LEAST.join(".")} or later`;
}
