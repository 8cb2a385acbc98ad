import { readFileSync } from "node:fs";
import {
  type Document,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from "yaml";
import type * as z from "zod";
import { faultLines, type KeyPath } from "./config-faults.ts";
import type { GoneKeys } from "./gone-keys.ts";

/** An invalid setting. The message names the file and the path of the key. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/**
 * Reads the YAML file `file`, replaces `${NAME}` by the values of `env`, and validates it against `schema`. Throws
 * `ConfigError`, a line for each fault. Default of `env`: an empty environment. `gone`: keys of earlier releases.
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
  return parseConfig(schema, text, file, env, gone);
}

/**
 * Parses and validates the YAML or JSON `text` as `loadConfig` does; without `env` references stay as they are. `source`
 * precedes each message.
 */
export function parseConfig<T extends z.ZodType>(
  schema: T,
  text: string,
  source: string,
  env?: Environment,
  gone: GoneKeys = {},
): z.output<T> {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter });
  const [broken] = document.errors;
  if (broken) throw unreadable(source, broken);
  const faults = env ? fillFromEnvironment(document, env) : [];
  if (faults.length > 0) throw new ConfigError(faults.map((fault) => `${source}: ${fault}`).join("\n"));
  return checkConfig(schema, document.toJS(), source, gone, (path) => lineOf(document, lineCounter, path));
}

/** Returns the line of a key, else of the section that should have it. */
function lineOf(document: Document, lines: LineCounter, path: KeyPath): number | undefined {
  for (let length = path.length; length > 0; length -= 1) {
    const section = document.getIn(path.slice(0, length - 1), true);
    const step = path[length - 1];
    const pair = isMap(section) && section.items.find(({ key }) => isScalar(key) && key.value === step);
    const node = pair ? pair.key : document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return undefined;
}

/**
 * Validates a parsed document. `source` precedes each message, and `lineOf` gives its line. Throws `ConfigError`, a line
 * for each fault.
 */
export function checkConfig<T extends z.ZodType>(
  schema: T,
  document: unknown,
  source: string,
  gone: GoneKeys = {},
  lineOf: (path: KeyPath) => number | undefined = () => undefined,
): z.output<T> {
  const checked = schema.safeParse(document);
  if (checked.success) return checked.data;
  const issues = allIssues(schema, document, checked.error.issues);
  throw new ConfigError(faultLines(issues, { schema, document, gone, source, lineOf }).join("\n"));
}

/** Returns the first issues and those that a check of the whole document finds once they are taken out. */
function allIssues<T extends z.ZodType>(schema: T, document: unknown, first: readonly z.core.$ZodIssue[]) {
  const rest = structuredClone(document);
  const faults = first.flatMap((issue) =>
    issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...issue.path, key]) : [issue.path],
  );
  for (const path of faults) {
    const section = path.slice(0, -1).reduce<unknown>((value, step) => Object(value)[step], rest);
    const key = path.at(-1);
    if (key !== undefined) Reflect.deleteProperty(Object(section), key);
  }
  const known = new Set(faults.map((path) => path.join(".")));
  const more = schema.safeParse(rest).error?.issues ?? [];
  return [...first, ...more.filter(({ path }) => !known.has(path.join(".")))];
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
