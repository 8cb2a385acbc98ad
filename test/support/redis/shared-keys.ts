import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runKeys } from "../processes/key-command.ts";

/** Configuration of gateways whose keys are in the store at `url`, and the command line with it. */
export function sharedKeys(url: string, keyPrefix = "svc:") {
  const folder = mkdtempSync(join(tmpdir(), "svc-shared-keys-"));
  const config = { keys: { redis: { pepperFile: join(folder, "pepper") } }, state: { redis: { url, keyPrefix } } };
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, JSON.stringify({ listen: { port: 0 }, clusters: [], ...config }));
  const keys = (...args: readonly string[]) => runKeys(["--config", file, ...args]);
  /** Resolves to the output of a command. Throws if it fails. */
  const done = async (...args: readonly string[]): Promise<string> => {
    const { code, out, said } = await keys(...args);
    if (code !== 0) throw new Error(said);
    return out;
  };
  const create = async (name = "one"): Promise<string> =>
    JSON.parse(await done("create", "--json", "--name", name, "--models", "all")).key;
  return { folder, config, keys, done, create, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
