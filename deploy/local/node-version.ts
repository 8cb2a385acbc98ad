/** The oldest major and minor version of Node that the service runs on, as `engines` of package.json says it. */
const LEAST = [20, 19] as const;

/**
 * Returns in one line why the service does not run on the Node of this version, given as `process.versions.node` has
 * it; undefined when it does run.
 */
export function unfitNode(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > LEAST[0] || (major === LEAST[0] && minor >= LEAST[1])) return undefined;
  return `Node ${version} is too old: this needs Node ${LEAST.join(".")} or later`;
}
