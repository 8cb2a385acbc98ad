import { JsonScanner } from "../../../tool-calls/readers/json-scanner.ts";

/** JSON text that goes into a body as it is: serialising it again would change bytes, and so break prefix caches. */
export class RawJson {
  /** The text, which is one whole JSON value. */
  readonly text: string;

  /** Wraps a text, which has to be one whole value: see `rawObject`. */
  constructor(text: string) {
    this.text = text;
  }
}

/** The values that `toJsonText` can write. A key whose value is `undefined` is left out. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | undefined
  | RawJson
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** Returns the text of a JSON object, kept as it is; undefined if it is not one. */
export function rawObject(text: string): RawJson | undefined {
  const scanner = new JsonScanner({ root: "object" });
  const { consumed, state } = scanner.push(text);
  return state === "complete" && text.slice(consumed).trim() === "" ? new RawJson(text) : undefined;
}

/**
 * Writes the JSON text of a value, with the texts of `RawJson` as they are. Undefined is written as `null` in a list.
 */
export function toJsonText(value: JsonValue): string {
  if (value === undefined || value === null) return "null";
  if (value instanceof RawJson) return value.text;
  if (typeof value !== "object") return JSON.stringify(value);
  if (isList(value)) return `[${value.map(toJsonText).join(",")}]`;
  const members = Object.entries(value).flatMap(([key, member]) =>
    member === undefined ? [] : [`${JSON.stringify(key)}:${toJsonText(member)}`],
  );
  return `{${members.join(",")}}`;
}

function isList(value: object): value is readonly JsonValue[] {
  return Array.isArray(value);
}
