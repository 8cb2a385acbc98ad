import { readFileSync } from "node:fs";
import { parse, parseDocument } from "yaml";
import type * as z from "zod";
import { type Environment, fillFromEnvironment } from "./environment.ts";

/** An invalid setting. The message names the file and the path of the key. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/**
 * Reads the YAML file `file`, replaces `${NAME}` by the values of `env`, and validates it against `schema`. Throws
 * `ConfigError`, a line for each invalid key. Default of `env`: an empty environment.
 */
export function loadConfig<T extends z.ZodType>(schema: T, file: string, env: Environment = {}): z.output<T> {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw unreadable(file, error);
  }
  const document = parseDocument(text);
  const [broken] = document.errors;
  if (broken) throw unreadable(file, broken);
  const faults = fillFromEnvironment(document, env);
  if (faults.length > 0) throw new ConfigError(faults.map((fault) => `${file}: ${fault}`).join("\n"));
  return checkConfig(schema, document.toJS(), file);
}

/** Parses and validates the YAML `text`. `source` precedes each message. Throws `ConfigError`. */
export function parseConfig<T extends z.ZodType>(schema: T, text: string, source: string): z.output<T> {
  let document: unknown;
  try {
    document = parse(text);
  } catch (error) {
    throw unreadable(source, error);
  }
  return checkConfig(schema, document, source);
}

/** Validates a parsed document. `source` precedes each message. Throws `ConfigError`. */
export function checkConfig<T extends z.ZodType>(schema: T, document: unknown, source: string): z.output<T> {
  const checked = schema.safeParse(document);
  if (checked.success) return checked.data;
  const lines = checked.error.issues.map(({ path, message }) => `${source}: ${path.join(".") || "(root)"}: ${message}`);
  throw new ConfigError(lines.join("\n"));
}

function unreadable(source: string, error: unknown): ConfigError {
  const what = error instanceof Error ? error.message : "cannot be read";
  return new ConfigError(`${source}: ${what}`, { cause: error });
}
