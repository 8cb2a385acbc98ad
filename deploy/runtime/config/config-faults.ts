import { closest, distance } from "fastest-levenshtein";
import * as z from "zod";
import { fatesBelow, type GoneKeys } from "./gone-keys.ts";

/** A key's place in a document, from the root. */
export type KeyPath = readonly PropertyKey[];

/** A checked document. */
export type Checked = {
  readonly schema: z.ZodType;
  readonly document: unknown;
  /** Keys of earlier releases. */
  readonly gone: GoneKeys;
  /** The file that the document is from. */
  readonly source: string;
  /** Returns the line of a key in the file, from 1; undefined where the file has none. */
  readonly lineOf: (path: KeyPath) => number | undefined;
};

/** Returns a line for each fault that validation found: file, line, path, fault, and the keys or values that may stand there. */
export function faultLines(issues: readonly z.core.$ZodIssue[], checked: Checked): readonly string[] {
  const { document, gone, source, lineOf } = checked;
  const faults = issues.flatMap((issue): readonly { readonly path: KeyPath; readonly text: string }[] => {
    if (issue.code !== "unrecognized_keys") return [{ path: issue.path, text: textOf(issue, checked) }];
    const keys = keysOf(schemasAt(checked.schema, issue.path, document), valueAt(document, issue.path));
    return issue.keys.flatMap((key) => {
      const path = [...issue.path, key];
      const fates = fatesBelow(gone, path, valueAt(document, path));
      return fates.length > 0
        ? fates
        : [{ path, text: `unknown key${meant(key, keys)}; known here: ${keys.join(", ")}` }];
    });
  });
  return faults.map(({ path, text }) => {
    const line = lineOf(path);
    return `${source}${line === undefined ? "" : `:${line}`}: ${path.join(".") || "(root)"}: ${text}`;
  });
}

function textOf(issue: z.core.$ZodIssue, { schema, document }: Checked): string {
  const value = valueAt(document, issue.path);
  if (value === undefined && issue.code !== "custom") {
    const about = schemasAt(schema, issue.path, document).find(({ description }) => description)?.description;
    return `missing${about ? `: ${about}` : ""}`;
  }
  const allowed = issue.code === "invalid_value" ? issue.values : "options" in issue ? issue.options : undefined;
  if (Array.isArray(allowed)) {
    const words = allowed.map(String);
    return `expected ${words.join(" or ")}, not ${JSON.stringify(value)}${meant(String(value), words)}`;
  }
  return issue.message.replace(/^Invalid input: /, "");
}

/** Returns the question for the word that was probably meant, with a space before it; "" without one that is near. */
export function meant(word: string, words: readonly string[]): string {
  if (words.length === 0) return "";
  const nearest = closest(word, [...words]);
  return distance(word, nearest) <= Math.max(1, Math.ceil(word.length / 3)) ? ` (did you mean ${nearest}?)` : "";
}

function valueAt(document: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>((value, step) => Object(value)[step], document);
}

/** Returns the schemas of a place: with unions, all that the document allows there. */
function schemasAt(schema: z.ZodType, path: KeyPath, document: unknown): readonly z.ZodType[] {
  const [step, ...rest] = path;
  if (step === undefined) return [schema];
  const below = Object(document)[step];
  const at = (next: unknown) => (next instanceof z.ZodType ? schemasAt(next, rest, below) : []);
  return unwrapped(schema, document).flatMap((inner) => {
    if (inner instanceof z.ZodObject) return at(inner.shape[String(step)]);
    if (inner instanceof z.ZodArray) return at(inner.element);
    return inner instanceof z.ZodRecord ? at(inner.valueType) : [];
  });
}

function keysOf(schemas: readonly z.ZodType[], section: unknown): readonly string[] {
  const keys = schemas
    .flatMap((schema) => unwrapped(schema, section))
    .flatMap((inner) => (inner instanceof z.ZodObject ? Object.keys(inner.shape) : []));
  return [...new Set(keys)];
}

/** Returns what a schema is behind defaults and refinements; of a union the options of the document's discriminator. */
function unwrapped(schema: z.ZodType, document: unknown): readonly z.ZodType[] {
  if (schema instanceof z.ZodDiscriminatedUnion) {
    const key = schema.def.discriminator;
    const kind = Object(document)[key];
    const options = schema.options.flatMap((option) => (option instanceof z.ZodType ? [option] : []));
    const fitting = options.filter(
      (option) => option instanceof z.ZodObject && (option.shape[key] as z.ZodType).safeParse(kind).success,
    );
    return (fitting.length > 0 ? fitting : options).flatMap((option) => unwrapped(option, document));
  }
  if (schema instanceof z.ZodUnion)
    return schema.options.flatMap((option) => (option instanceof z.ZodType ? unwrapped(option, document) : []));
  if (schema instanceof z.ZodPipe) return schema.in instanceof z.ZodType ? unwrapped(schema.in, document) : [];
  const { innerType } = schema.def as { readonly innerType?: unknown };
  return innerType instanceof z.ZodType ? unwrapped(innerType, document) : [schema];
}
