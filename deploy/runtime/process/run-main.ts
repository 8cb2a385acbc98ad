import type { AddressInfo } from "node:net";
import { Command, CommanderError } from "commander";
import type * as z from "zod";
import { ConfigError, loadConfig } from "../config/load-config.ts";
import { errnoOf } from "../files/errno.ts";
import { PemError } from "../files/followed-pems.ts";
import { programVersion } from "../files/project-folder.ts";

/** A program as its `main` runs it. */
export type Main = {
  /** The name that stands before what the program says about its failure on standard error. */
  readonly name: string;
  /** Does the whole work of the program; resolves to its exit code. */
  readonly run: () => Promise<number>;
  /**
   * The exit code for an error whose message alone tells an operator what to mend; undefined for any other error, which
   * is shown with its stack. `runMain` itself knows those of the command line and of the configuration.
   */
  readonly exitCodeOf?: (error: unknown) => number | undefined;
};

/** A program that one YAML file configures. */
export type ConfiguredMain<T extends z.ZodType> = Omit<Main, "run"> & {
  /** The line that says what the program is, for `--help`. */
  readonly description: string;
  /** The schema of its configuration. */
  readonly schema: T;
  /** Does the whole work of the program; resolves to its exit code. */
  readonly run: (config: z.output<T>) => Promise<number>;
};

/**
 * Runs a program and says on standard error why it could not go on. Resolves to the exit code of the process: 0 fine, 2
 * wrong usage or configuration, 1 anything else, or what `run` and `exitCodeOf` say. Never rejects.
 */
export async function runMain({ name, run, exitCodeOf = () => undefined }: Main): Promise<number> {
  outliveReaders();
  stayClosed();
  try {
    return await run();
  } catch (error) {
    // Commander has printed its own message.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const isConfig = error instanceof ConfigError || error instanceof PemError;
    const exitCode = isConfig ? 2 : exitCodeOf(error);
    const text = exitCode !== undefined && error instanceof Error ? error.message : startFailure(error);
    process.stderr.write(`${name}: ${text}\n`);
    return exitCode ?? 1;
  }
}

/**
 * Runs the program that the file behind `--config` on the command line of this process configures, as `runMain` does.
 */
export function runConfigured<T extends z.ZodType>(main: ConfiguredMain<T>): Promise<number> {
  const { name, description, schema, run, exitCodeOf } = main;
  const command = new Command(name)
    .description(description)
    .version(programVersion(name), "--version", "print name and version")
    .requiredOption("--config <file>", "YAML configuration")
    .option("--check-config", "only check the configuration: exit code 0, or 2 with a line for each bad key")
    .exitOverride();
  return runMain({
    name,
    ...(exitCodeOf && { exitCodeOf }),
    run: async () => {
      command.parse();
      const { config: file, checkConfig } = command.opts<{ config: string; checkConfig?: true }>();
      const config = loadConfig(schema, file, process.env);
      if (!checkConfig) return run(config);
      process.stdout.write(`${file} is fine\n`);
      return 0;
    },
  });
}

/**
 * Lets this process go on when whoever read its standard output or standard error has gone. Without it the first write
 * to a closed pipe is an error that nobody catches.
 */
function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}

/**
 * Takes SIGUSR1 from Node, which opens its debugger for it: any process of the machine could then read what is in the
 * memory of this one. `--inspect` still opens it for who starts the process.
 */
function stayClosed(): void {
  process.on("SIGUSR1", () => {});
}

/** Returns why a process could not go on: a line where a listener has no address, else the error with its stack. */
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
