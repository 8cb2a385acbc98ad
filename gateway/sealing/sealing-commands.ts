import type { Command } from "commander";
import { withFileLock } from "../../deploy/runtime/files/file-lock.ts";
import { readPrivateFile, writePrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { newSealingKey, readSealingKeys, type SealingKeys, sealingKeysText } from "./sealing-key.ts";

/** Milliseconds that a change waits for another one to finish. */
const LOCK_WAIT_MS = 5_000;

/** Adds the commands for sealing keys. `print` prints a value as JSON, or the text. */
export function addSealingCommands(
  program: Command,
  print: (value: object, text: () => string) => void,
  parseKept: (text: string) => number,
): void {
  const printIds = (keys: SealingKeys) => {
    const ids = keys.map(({ id }) => id);
    const lines = ids.map((id, at) => `${id}  ${at === 0 ? "seals" : "opens"}\n`);
    print(ids, () => lines.join(""));
  };
  const change = async (path: string, next: () => Promise<SealingKeys>) => {
    const write = async () => {
      const keys = await next();
      await writePrivateFile(path, sealingKeysText(keys));
      return keys;
    };
    printIds(await withFileLock(`${path}.lock`, write, AbortSignal.timeout(LOCK_WAIT_MS)));
  };
  const sealing = program
    .command("sealing-key")
    .description("the keys by which gateways seal reasoning for callers to carry");
  const create = sealing
    .command("create <path>")
    .description("make the file with one key, for sealingKeyFile of every gateway")
    .action((path: string) =>
      change(path, async () => {
        if ((await readPrivateFile(path)) !== undefined)
          create.error(`error: ${path} is there already; rotate adds a key to it`, { exitCode: 1 });
        return [newSealingKey()];
      }),
    );
  sealing
    .command("rotate <path>")
    .description("put a new key before the others: it seals from now on, and the newest of the others still open")
    .option("--keep <n>", "how many of the others stay; 0 for none", parseKept, 1)
    .action((path: string, { keep }: { keep: number }) =>
      change(path, async () => [newSealingKey(), ...(await readSealingKeys(path)).slice(0, keep)]),
    );
  sealing
    .command("list <path>")
    .description("the ids of the keys, the one that seals first")
    .action(async (path: string) => printIds(await readSealingKeys(path)));
}
