import type { AddressInfo } from "node:net";
import { Command, CommanderError } from "commander";
import type * as z from "zod";
import type { GoneKeys } from "../config/gone-keys.ts";
import { ConfigError, loadConfig } from "../config/load-config.ts";
import { PemError } from "../files/followed-file.ts";
import { errnoOf } from "../files/private-file.ts";
import { programVersion } from "../files/project-folder.ts";

export type Main = {
  readonly name: string;
  readonly run: () => Promise<number>;
  /**
   * Returns the exit code for an error whose message is sufficient for operators; undefined for any other error, which
   * is printed with its stack. `runMain` handles those of the command line and of the configuration.
   */
  readonly exitCodeOf?: (error: unknown) => number | undefined;
};

export type ConfiguredMain<T extends z.ZodType> = Omit<Main, "run"> & {
  readonly description: string;
  /** Loads the schema, which takes longer than to print a version. */
  readonly schema: () => Promise<T>;
  /** Keys of earlier releases, which are refused with what became of them. */
  readonly gone: GoneKeys;
  readonly run: (config: z.output<T>) => Promise<number>;
};

const REMEDIES = 'see "When a start is refused" in deploy/docs/run-as-a-service.md';

/**
 * Runs a program and prints a fatal error to stderr. Resolves to the exit code of the process: 0 success, 2 invalid
 * usage or configuration, 1 any other error, or the result of `run` or `exitCodeOf`. Never rejects.
 */
export async function runMain({ name, run, exitCodeOf = () => undefined }: Main): Promise<number> {
  outliveReaders();
  stayClosed();
  try {
    return await run();
  } catch (error) {
    // Commander has already printed the error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const isConfig = error instanceof ConfigError || error instanceof PemError;
    const exitCode = isConfig ? 2 : exitCodeOf(error);
    const text = exitCode !== undefined && error instanceof Error ? error.message : startFailure(error);
    process.stderr.write(`${name}: ${text}\n${isConfig ? `${name}: ${REMEDIES}\n` : ""}`);
    return exitCode ?? 1;
  }
}

/** Runs a program with the configuration file of `--config` on the command line of this process, as `runMain` does. */
export function runConfigured<T extends z.ZodType>(main: ConfiguredMain<T>): Promise<number> {
  const { name, description, schema, gone, run, exitCodeOf } = main;
  const command = new Command(name)
    .description(description)
    .version(programVersion(name), "--version", "print name and version")
    .showHelpAfterError("(--help lists the options)")
    .requiredOption("--config <file>", "YAML configuration")
    .option("--check-config", "only check the configuration: exit code 0, or 2 with a line for each bad key")
    .exitOverride();
  return runMain({
    name,
    ...(exitCodeOf && { exitCodeOf }),
    run: async () => {
      command.parse();
      const { config: file, checkConfig } = command.opts<{ config: string; checkConfig?: true }>();
      const config = loadConfig(await schema(), file, process.env, gone);
      if (!checkConfig) return run(config);
      process.stdout.write(`${file} is fine\n`);
      return 0;
    },
  });
}

/** Lets this process continue when the reader of its stdout or stderr has exited, as `head` does. */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}

/** Disables Node's SIGUSR1 handler, which opens the debugger, and so this memory, to any process of the machine. */
function stayClosed(): void {
  process.on("SIGUSR1", () => {});
}

/** Returns the message of a fatal error: a line if a listener has no address, else the error with its stack. */
function startFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("syscall" in error && error.syscall === "listen") {
    const { address, port } = error as Partial<AddressInfo>;
    const code = errnoOf(error);
    const what = code === "EADDRINUSE" ? "is in use" : `cannot be listened on (${code})`;
    return `the address ${address ?? ""}:${port ?? ""} ${what}`;
  }
  return error.stack ?? error.message;
}
