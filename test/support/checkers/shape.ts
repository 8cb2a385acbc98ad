import { must } from "./machine.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns a value that is a JSON object. Throws `StreamFault` for any other; `what` names the value in the message. */
export function asObject(value: unknown, what: string): JsonObject {
  must(isObject(value), `${what} is an object`);
  return value;
}

/** Returns the only item of a list. Throws `StreamFault` for anything else; `what` names the list in the message. */
export function onlyObject(value: unknown, what: string): JsonObject {
  must(Array.isArray(value) && value.length === 1, `${what} has exactly one item`);
  return asObject(value[0], `the item of ${what}`);
}

/**
 * Throws `StreamFault` unless an object has exactly these keys and any of the optional ones: a missing key breaks
 * clients, and so does an unexpected one.
 */
export function exactKeys(value: JsonObject, keys: readonly string[], optional: readonly string[] = []): void {
  for (const key of keys) must(Object.hasOwn(value, key), `the field ${key} is there`);
  for (const key of Object.keys(value)) must(keys.includes(key) || optional.includes(key), `no field ${key} is there`);
}

/** Returns a value that is a string. Throws `StreamFault` for any other; `what` names the value in the message. */
export function asText(value: unknown, what: string): string {
  must(typeof value === "string", `${what} is a string`);
  return value;
}

/**
 * Returns a value that is a string and not empty. Throws `StreamFault` for any other; `what` names the value in the
 * message.
 */
export function asPiece(value: unknown, what: string): string {
  const text = asText(value, what);
  must(text !== "", `${what} is not empty`);
  return text;
}

/**
 * Returns a value that is a whole number of at least 0. Throws `StreamFault` for any other; `what` names the value in
 * the message.
 */
export function asCount(value: unknown, what: string): number {
  must(typeof value === "number" && Number.isSafeInteger(value) && value >= 0, `${what} is a count`);
  return value;
}

/**
 * Returns a value that is an id: it has the prefix, and the characters and the length that every client accepts. Throws
 * `StreamFault` for any other.
 */
export function asId(value: unknown, prefix: string): string {
  const id = asText(value, "the id");
  must(new RegExp(`^${prefix}[A-Za-z0-9_-]+$`).test(id) && id.length <= 64, `the id is ${prefix} and a name`);
  return id;
}

export function isObjectText(text: string): boolean {
  try {
    return isObject(JSON.parse(text));
  } catch {
    return false;
  }
}
