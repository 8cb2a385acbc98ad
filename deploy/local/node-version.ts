/** The oldest supported major and minor version of Node, as in `engines` of package.json. */
const LEAST = [20, 19] as const;

/** Returns why the service does not run on this `process.versions.node`; undefined if it does. */
export function unfitNode(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > LEAST[0] || (major === LEAST[0] && minor >= LEAST[1])) return undefined;
  return `Node ${version} is too old: this needs Node ${LEAST.join(".")} or later`;
}
