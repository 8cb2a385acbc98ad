import { readFileSync } from "node:fs";
import { type Document, isPair, isScalar, isSeq, type Node, parse, parseDocument, visit } from "yaml";
import type * as z from "zod";
import { fatesBelow, type GoneKeys } from "./gone-keys.ts";

/** An invalid setting. The message names the file and the path of the key. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/**
 * Reads the YAML file `file`, replaces `${NAME}` by the values of `env`, and validates it against `schema`. Throws
 * `ConfigError`, a line for each invalid key. Default of `env`: an empty environment. `gone`: keys of earlier releases.
 */
export function loadConfig<T extends z.ZodType>(
  schema: T,
  file: string,
  env: Environment = {},
  gone: GoneKeys = {},
): z.output<T> {
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
  return checkConfig(schema, document.toJS(), file, gone);
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
export function checkConfig<T extends z.ZodType>(
  schema: T,
  document: unknown,
  source: string,
  gone: GoneKeys = {},
): z.output<T> {
  const checked = schema.safeParse(document);
  if (checked.success) return checked.data;
  const lines = checked.error.issues.flatMap((issue) => [
    `${issue.path.join(".") || "(root)"}: ${issue.message}`,
    ...fatesOf(issue, document, gone),
  ]);
  throw new ConfigError(lines.map((line) => `${source}: ${line}`).join("\n"));
}

/** Returns a line for each key of earlier releases among unknown ones. */
function fatesOf(issue: z.core.$ZodIssue, document: unknown, gone: GoneKeys): readonly string[] {
  if (issue.code !== "unrecognized_keys") return [];
  const section = issue.path.reduce<unknown>((value, step) => Object(value)[step], document);
  return issue.keys.flatMap((key) => fatesBelow(gone, [...issue.path, key], Object(section)[key]));
}

function unreadable(source: string, error: unknown): ConfigError {
  const what = error instanceof Error ? error.message : "cannot be read";
  return new ConfigError(`${source}: ${what}`, { cause: error });
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** `$${`, a reference such as `${NAME}` or `${NAME:-text}`, or a malformed one. */
const REFERENCE = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?/g;

/** Values that are not strings if a reference stands alone and unquoted, as in YAML. */
const NO_TEXT = /^(?:true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)$/;

/**
 * Replaces `${NAME}` in the values of a YAML document (not in its keys and comments) by environment variables.
 * `${NAME:-text}` gives the text if the variable is unset or empty, and `$${` a plain `${`. A value that consists of
 * one unquoted reference becomes a number or a boolean if it has that form. Returns a line for each unresolved
 * reference, with the path of its key; an empty list if there is none.
 */
export function fillFromEnvironment(document: Document, env: Environment): readonly string[] {
  const faults: string[] = [];
  visit(document, {
    Scalar(key, node, ancestors) {
      if (key === "key" || typeof node.value !== "string" || !node.value.includes("${")) return;
      const path = () => pathOf([...ancestors, node]);
      const filled = node.value.replaceAll(REFERENCE, (found, name?: string, instead?: string) => {
        if (found === "$${") return "${";
        if (name === undefined) {
          faults.push(`${path()}: expected \${NAME} or \${NAME:-text}; $\${ stands for a plain \${`);
          return "";
        }
        const value = env[name];
        if (instead === undefined) {
          if (value === undefined) faults.push(`${path()}: the environment has no ${name}`);
          return value ?? "";
        }
        return value || instead;
      });
      const alone = node.type === "PLAIN" && /^\$\{[^}]*\}$/.test(node.value);
      node.value = alone && NO_TEXT.test(filled) ? JSON.parse(filled) : filled;
    },
  });
  return faults;
}

/** Returns the path of the last node in a chain of nested nodes, in the form of other configuration errors. */
function pathOf(nodes: readonly unknown[]): string {
  const steps = nodes.flatMap((node, at) => {
    if (isPair(node)) return [isScalar(node.key) ? String(node.key.value) : "?"];
    return isSeq(node) ? [String(node.items.indexOf(nodes[at + 1] as Node))] : [];
  });
  return steps.join(".") || "(root)";
}
