import { asWritten } from "../../deploy/runtime/contract/broken-arguments.ts";

export type JsonObject = { readonly [key: string]: unknown };

/** Returns whether a value is a JSON object; not an array or null. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The objects and arrays of bodies with a number that `JSON.stringify` writes differently, each with a copy in which
 * such numbers are strings. A WeakMap because schema checks pass on nothing beside the value.
 */
const DOUBLES = new WeakMap<object, unknown>();

/**
 * Makes `jsonText` write the numbers in `value` as the caller did. `double` is parsed from the same text, with these
 * numbers in quotation marks.
 */
export function keepNumbers(value: unknown, double: unknown): void {
  if (typeof value !== "object" || value === null) return;
  DOUBLES.set(value, double);
  for (const key of Object.keys(value)) keepNumbers(Reflect.get(value, key), memberOf(double, key));
}

/**
 * Writes a parsed value as JSON as `JSON.stringify` does, except numbers noted by `keepNumbers`: an integer beyond 2^53
 * would change its value, and `1` instead of `1.0` ends the prefix that an engine has cached. The same text always gives
 * the same bytes, whatever else its body holds.
 */
export function jsonText(value: JsonObject | readonly unknown[] | string | number | boolean | null): string {
  return written(value, typeof value === "object" && value !== null ? DOUBLES.get(value) : undefined);
}

function written(value: unknown, double: unknown): string {
  if (typeof value === "number" && typeof double === "string") return double;
  if (double === undefined || typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value))
    return `[${value.map((item, at) => written(item, memberOf(double, String(at)))).join(",")}]`;
  const members = Object.entries(value).map(
    ([key, member]) => `${JSON.stringify(key)}:${written(member, memberOf(double, key))}`,
  );
  return `{${members.join(",")}}`;
}

function memberOf(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

/**
 * Returns the arguments of an earlier tool call for the prompt: the caller's text, byte for byte, even if it is not
 * JSON, as models make mistakes and the history must stay usable; those of a broken call as the model wrote them. An
 * empty text becomes `{}`.
 */
export function argumentsText(text: string): string {
  return asWritten(text) || "{}";
}

/** The most levels of arguments that are parsed: writing a value takes stack for each of its levels. */
const MAX_ARGUMENTS_DEPTH = 1000;

/**
 * Parses the arguments of a tool call; undefined for a text that is not a JSON object, or has more than 1,000 levels.
 * An empty text is an empty object.
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
