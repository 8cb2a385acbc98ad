import type { Notation } from "./json-notation.ts";

/** A JSON object as `JSON.parse` made it. */
export type JsonObject = { readonly [key: string]: unknown };

/** Returns whether a value is a JSON object; arrays and null are none. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The notations of the parsed objects and arrays that have one. They are kept here because neither the framework nor a
 * schema check passes on anything beside the value. An entry lives as long as the object it is about, which is one
 * request.
 */
const NOTATIONS = new WeakMap<object, Notation>();

/**
 * Lets `jsonText` know how `value`, and everything in it, was written. `notation` has to be that of the text which
 * `value` was parsed from.
 */
export function keepNotation(value: object, notation: Notation): void {
  const waiting: [object, Notation][] = [[value, notation]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [outer, of] = next;
    NOTATIONS.set(outer, of);
    for (const [key, member] of of.members) {
      const inner: unknown = typeof member === "string" ? undefined : Reflect.get(outer, key);
      if (typeof member !== "string" && typeof inner === "object" && inner !== null) waiting.push([inner, member]);
    }
  }
}

/**
 * Writes the JSON text of a parsed value as the caller wrote it, in canonical form: no white space between tokens;
 * strings and keys escaped as `JSON.stringify` does it; of a key given more than once the first place and the last
 * value, so that the text parses to the value that was checked. The order of keys and the text of numbers are the
 * caller's, where `keepNotation` was called for a value that does not tell them. The same text thus always gives the
 * same bytes, whatever else stands in its body, which is what the engine's prefix cache lives on.
 */
export function jsonText(value: JsonObject | readonly unknown[] | string | number | boolean | null): string {
  return written(value, typeof value === "object" && value !== null ? NOTATIONS.get(value) : undefined);
}

function written(value: unknown, notation: string | Notation | undefined): string {
  if (typeof notation === "string") return notation;
  if (notation === undefined || typeof value !== "object" || value === null) return JSON.stringify(value);
  const { keys, members } = notation;
  if (Array.isArray(value)) return `[${value.map((item, at) => written(item, members.get(String(at)))).join(",")}]`;
  const member = (key: string) => `${JSON.stringify(key)}:${written(Reflect.get(value, key), members.get(key))}`;
  return `{${(keys ?? Object.keys(value)).map(member).join(",")}}`;
}

/**
 * Returns the arguments of an earlier tool call as they go into the prompt: the caller's text, byte for byte, even
 * where it is not JSON, as models make mistakes and the history must stay usable. An empty text becomes `{}`.
 */
export function argumentsText(text: string): string {
  return text === "" ? "{}" : text;
}

/** The most levels of arguments that are read as a value: writing a value takes stack for each of its levels. */
const MAX_ARGUMENTS_DEPTH = 1000;

/**
 * Parses the arguments of a tool call; undefined when the text is not that of a JSON object, or of one with more than
 * 1,000 levels. An empty text is an empty object.
 */
export function parseArguments(text: string): JsonObject | undefined {
  if (text === "") return {};
  if (isDeeperThan(text, MAX_ARGUMENTS_DEPTH)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns whether a JSON text has lists and objects of more than so many levels inside each other. */
function isDeeperThan(text: string, most: number): boolean {
  if (text.length <= most) return false;
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charAt(at);
    if (char === '"') inString = !inString;
    else if (inString) at += char === "\\" ? 1 : 0;
    else if (char === "[" || char === "{") depth += 1;
    else if (char === "]" || char === "}") depth -= 1;
    if (depth > most) return true;
  }
  return false;
}
