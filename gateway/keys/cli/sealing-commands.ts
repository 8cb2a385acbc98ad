import type { Command } from "commander";
import { withFileLock } from "../../../deploy/runtime/files/file-lock.ts";
import { readPrivateFile, writePrivateFile } from "../../../deploy/runtime/files/private-file.ts";
import { readSealingKeys } from "../../sealing/followed-sealing.ts";
import { newSealingKey, type SealingKeys, sealingKeysText } from "../../sealing/sealing-key.ts";
import { KeyAdminError } from "../key-admin.ts";
import type { CliContext } from "./command-context.ts";
import { parseKept } from "./options.ts";

/** Adds the commands that create and change files of sealing keys to `program`. */
export function addSealingCommands(program: Command, context: CliContext): void {
  const sealing = program
    .command("sealing-key")
    .description("the keys by which gateways seal reasoning for callers to carry");
  sealing
    .command("create <path>")
    .description("make the file with one key, for sealingKeyFile of every gateway")
    .action((path: string) => create(context, path));
  sealing
    .command("rotate <path>")
    .description("put a new key before the others: it seals from now on, and the newest of the others still open")
    .option("--keep <n>", "how many of the others stay; 0 for none", parseKept, 1)
    .action((path: string, { keep }: { keep: number }) => rotate(context, path, keep));
  sealing
    .command("list <path>")
    .description("the ids of the keys, the one that seals first")
    .action(async (path: string) => printIds(context, await readSealingKeys(path)));
}

function create(context: CliContext, path: string): Promise<void> {
  return changing(context, path, async () => {
    if ((await readPrivateFile(path)) !== undefined)
      throw new KeyAdminError("conflict", `${path} is there already; rotate adds a key to it`);
    return [newSealingKey()];
  });
}

function rotate(context: CliContext, path: string, keep: number): Promise<void> {
  return changing(context, path, async () => [newSealingKey(), ...(await readSealingKeys(path)).slice(0, keep)]);
}

async function changing(context: CliContext, path: string, change: () => Promise<SealingKeys>): Promise<void> {
  const write = async () => {
    const keys = await change();
    await writePrivateFile(path, sealingKeysText(keys));
    return keys;
  };
  printIds(context, await withFileLock(`${path}.lock`, write, context.lockSignal()));
}

function printIds(context: CliContext, keys: SealingKeys): void {
  const ids = keys.map(({ id }) => id);
  const lines = ids.map((id, at) => `${id}  ${at === 0 ? "seals" : "opens"}\n`);
  context.print(ids, () => lines.join(""));
}
