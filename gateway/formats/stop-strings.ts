import type { FieldPath } from "../errors.ts";
import { tooMany, wrongType } from "./field-error.ts";

/** The most stop strings that one request may have. */
export const MAX_STOP_STRINGS = 16;

/**
 * Reads the stop strings of a body, which may be one string or an array of them. Null and absent are none; empty
 * strings are dropped, as they would end every answer at once. Throws `ApiError` `invalid_type` or
 * `array_above_max_length`.
 */
export function stopStringOrList(value: unknown, path: FieldPath): readonly string[] {
  if (value === "") return [];
  if (typeof value === "string") return [value];
  return stopStrings(value, path, "a string or an array of strings");
}

/**
 * Reads the stop strings of a body, which have to be an array; else as `stopStringOrList`. `expected` says in an error
 * what the field takes.
 */
export function stopStrings(value: unknown, path: FieldPath, expected = "an array of strings"): readonly string[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw wrongType(path, expected, value);
  if (value.length > MAX_STOP_STRINGS) throw tooMany(path, MAX_STOP_STRINGS);
  return value
    .map((item: unknown, index) => {
      if (typeof item !== "string") throw wrongType([...path, index], "a string", item);
      return item;
    })
    .filter((item) => item !== "");
}
