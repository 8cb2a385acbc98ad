import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command, CommanderError } from "commander";
import { ConfigError } from "../../../deploy/runtime/config/load-config.ts";
import { withFileLock } from "../../../deploy/runtime/files/file-lock.ts";
import { readPrivateFile, writePrivateFile } from "../../../deploy/runtime/files/private-file.ts";
import { programVersion } from "../../../deploy/runtime/files/project-folder.ts";
import { readSealingKeys } from "../../sealing/followed-sealing.ts";
import { newSealingKey, SealingKeyError, type SealingKeys, sealingKeysText } from "../../sealing/sealing-key.ts";
import { LOCK_WAIT_MS } from "../file-key-vault.ts";
import { KeyAdminError } from "../key-admin.ts";
import { isKeyStoreError } from "../key-store.ts";
import { addChangeCommands } from "./change-commands.ts";
import { CliContext, EXIT, type KeysIo } from "./command-context.ts";
import { parseKept } from "./options.ts";
import { addReadCommands } from "./read-commands.ts";

const DEFAULT_FILE = ".svc/keys.json";

const EXIT_CODES = `
Exit codes: ${EXIT.ok} fine, ${EXIT.usage} usage or a change that the key's state forbids, ${EXIT.notFound} no such key (verify: not valid; import: no file),
${EXIT.store} the store cannot be used or is not as it should be, ${EXIT.other} anything else.`;

function exitCodeOf(error: unknown, io: KeysIo): number {
  // Commander has already printed the error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  const isOfKeys = error instanceof KeyAdminError;
  if (!isOfKeys && !isKeyStoreError(error) && !(error instanceof SealingKeyError || error instanceof ConfigError))
    throw error;
  io.err(`error: ${error.message}\n`);
  if (!isOfKeys) return EXIT.store;
  return error.reason === "not_found" ? EXIT.notFound : EXIT.usage;
}

/** Runs one command. `argv` starts after the name of the program. Returns the exit code. */
export async function run(argv: readonly string[], io: KeysIo): Promise<number> {
  const program = new Command("keys")
    .description(
      "Issue, list, limit, rotate and revoke API keys. A running gateway takes changes over within a second.",
    )
    .version(programVersion("keys"), "--version", "print name and version")
    .exitOverride()
    .configureOutput({ writeOut: io.out, writeErr: io.err })
    .option("--file <path>", "the key file (or SVC_KEYS_FILE)", io.env.SVC_KEYS_FILE || DEFAULT_FILE)
    .option("--config <path>", "a gateway's configuration, to work on its keys instead, wherever they stand")
    .option("--json", "print JSON", false)
    .addHelpText("after", EXIT_CODES);
  const context = new CliContext(program, io);
  addChangeCommands(program, context);
  addReadCommands(program, context);
  addSealingCommands(program, context);
  try {
    await program.parseAsync([...argv], { from: "user" });
    return context.exitCode;
  } catch (error) {
    return exitCodeOf(error, io);
  } finally {
    await context.close();
  }
}

function isMain(): boolean {
  const started = process.argv[1];
  return started !== undefined && realpathSync(started) === fileURLToPath(import.meta.url);
}

if (isMain()) {
  process.exitCode = await run(process.argv.slice(2), {
    stdin: process.stdin,
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    env: process.env,
    nowMs: () => Date.now(),
  });
}

function addSealingCommands(program: Command, context: CliContext): void {
  const sealing = program
    .command("sealing-key")
    .description("the keys by which gateways seal reasoning for callers to carry");
  sealing
    .command("create <path>")
    .description("make the file with one key, for sealingKeyFile of every gateway")
    .action((path: string) =>
      change(context, path, async () => {
        if ((await readPrivateFile(path)) !== undefined)
          throw new KeyAdminError("conflict", `${path} is there already; rotate adds a key to it`);
        return [newSealingKey()];
      }),
    );
  sealing
    .command("rotate <path>")
    .description("put a new key before the others: it seals from now on, and the newest of the others still open")
    .option("--keep <n>", "how many of the others stay; 0 for none", parseKept, 1)
    .action((path: string, { keep }: { keep: number }) =>
      change(context, path, async () => [newSealingKey(), ...(await readSealingKeys(path)).slice(0, keep)]),
    );
  sealing
    .command("list <path>")
    .description("the ids of the keys, the one that seals first")
    .action(async (path: string) => printIds(context, await readSealingKeys(path)));
}

async function change(context: CliContext, path: string, next: () => Promise<SealingKeys>): Promise<void> {
  const write = async () => {
    const keys = await next();
    await writePrivateFile(path, sealingKeysText(keys));
    return keys;
  };
  printIds(context, await withFileLock(`${path}.lock`, write, AbortSignal.timeout(LOCK_WAIT_MS)));
}

function printIds(context: CliContext, keys: SealingKeys): void {
  const ids = keys.map(({ id }) => id);
  const lines = ids.map((id, at) => `${id}  ${at === 0 ? "seals" : "opens"}\n`);
  context.print(ids, () => lines.join(""));
}
