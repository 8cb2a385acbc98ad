import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command, CommanderError } from "commander";
import { ConfigError } from "../../../deploy/runtime/config/load-config.ts";
import { programVersion } from "../../../deploy/runtime/files/project-folder.ts";
import { outliveReaders } from "../../../deploy/runtime/process/run-main.ts";
import { addSealingCommands } from "../../sealing/sealing-commands.ts";
import { SealingKeyError } from "../../sealing/sealing-key.ts";
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
    .showHelpAfterError("(--help lists the commands and options)")
    .exitOverride()
    .configureOutput({ writeOut: io.out, writeErr: io.err })
    .option("--file <path>", "the key file (or SVC_KEYS_FILE)", io.env.SVC_KEYS_FILE || DEFAULT_FILE)
    .option("--config <path>", "a gateway's configuration, to work on its keys instead, wherever they stand")
    .option("--json", "print JSON", false)
    .addHelpText("after", EXIT_CODES);
  const context = new CliContext(program, io);
  addChangeCommands(program, context);
  addReadCommands(program, context);
  addSealingCommands(program, (value, text) => context.print(value, text), parseKept);
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
  outliveReaders();
  process.exitCode = await run(process.argv.slice(2), {
    stdin: process.stdin,
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    env: process.env,
    nowMs: () => Date.now(),
  });
}
