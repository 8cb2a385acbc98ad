import { ApiError, type ErrorCode, type FieldPath } from "../errors.ts";
import { bracketPath, dottedPath } from "./error-envelope.ts";

/*
 * Faults of one field, worded as both formats word them. The path is the only part of the request that a message
 * repeats, and a path only has keys from our own tables, never a key that the caller invented.
 */

function fault(code: ErrorCode, path: FieldPath, a: (field: string) => string, b: string): ApiError {
  return new ApiError(code, { a: a(bracketPath(path)), b: `${dottedPath(path)}: ${b}` }, { path });
}

export function missing(path: FieldPath): ApiError {
  return fault("missing_required_parameter", path, (f) => `Missing required parameter: '${f}'.`, "Field required");
}

/**
 * Makes the error for a value of the wrong type. `expected` reads as a noun with its article: "a number", "an array of
 * strings".
 */
export function wrongType(path: FieldPath, expected: string, got: unknown): ApiError {
  return fault(
    "invalid_type",
    path,
    (f) => `Invalid type for '${f}': expected ${expected}, but got ${nameOfType(got)} instead.`,
    `Input should be ${expected}`,
  );
}

/** Makes the error for a number below `minimum`. `integer`: whether the value is an integer. */
export function belowMinimum(path: FieldPath, minimum: number, integer: boolean): ApiError {
  return fault(
    integer ? "integer_below_min_value" : "decimal_below_min_value",
    path,
    (f) => `Invalid '${f}': expected a value >= ${minimum}.`,
    `Input should be greater than or equal to ${minimum}`,
  );
}

/** Makes the error for a number above `maximum`. `integer`: whether the value is an integer. */
export function aboveMaximum(path: FieldPath, maximum: number, integer: boolean): ApiError {
  return fault(
    integer ? "integer_above_max_value" : "decimal_above_max_value",
    path,
    (f) => `Invalid '${f}': expected a value <= ${maximum}.`,
    `Input should be less than or equal to ${maximum}`,
  );
}

export function tooLong(path: FieldPath, maximum: number): ApiError {
  return fault(
    "string_above_max_length",
    path,
    (f) => `Invalid '${f}': string too long. Expected a string with maximum length ${maximum}.`,
    `String should have at most ${maximum} characters`,
  );
}

export function tooMany(path: FieldPath, maximum: number): ApiError {
  return fault(
    "array_above_max_length",
    path,
    (f) => `Invalid '${f}': array too long. Expected an array with maximum length ${maximum}.`,
    `List should have at most ${maximum} items`,
  );
}

export function emptyArray(path: FieldPath): ApiError {
  return fault(
    "empty_array",
    path,
    (f) => `Invalid '${f}': empty array. Expected an array with minimum length 1.`,
    "List should have at least 1 item",
  );
}

/** Makes the error for any other wrong value. `explanation` is a sentence of ours on the accepted values. */
export function invalidValue(path: FieldPath, explanation: string): ApiError {
  return fault("invalid_value", path, (f) => `Invalid value for '${f}': ${explanation}`, explanation);
}

export function oneOf(path: FieldPath, allowed: readonly string[]): ApiError {
  const list = allowed.map((value) => `'${value}'`).join(", ");
  return fault(
    "invalid_value",
    path,
    (f) => `Invalid value for '${f}'. Supported values are: ${list}.`,
    `Input should be ${list}`,
  );
}

/**
 * Makes the error for a field of the format that this service does not support. `explanation` is a sentence of ours, or
 * empty.
 */
export function unsupportedParameter(path: FieldPath, explanation = ""): ApiError {
  const more = explanation && ` ${explanation}`;
  return fault(
    "unsupported_parameter",
    path,
    (f) => `Unsupported parameter: '${f}' is not supported.${more}`,
    `This field is not supported.${more}`,
  );
}

/**
 * Makes the error for a value of the format that this service does not support. `explanation` is a sentence of ours.
 */
export function unsupportedValue(path: FieldPath, explanation: string): ApiError {
  return fault("unsupported_value", path, (f) => `Unsupported value: '${f}'. ${explanation}`, explanation);
}

/**
 * Makes the error for an unknown key of the object at `within`. The message shows the key only if it looks like one.
 */
export function unknownParameter(key: string, within: FieldPath = []): ApiError {
  const shown = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/.test(key) ? key : "?";
  return fault(
    "unknown_parameter",
    [...within, shown],
    (f) => `Unknown parameter: '${f}'.`,
    "Extra inputs are not permitted",
  );
}

/**
 * Makes the error for a schema of the answer (`response`) or of a tool (`function`). `explanation` is a sentence of
 * ours.
 */
export function invalidSchema(path: FieldPath, explanation: string, of: "response" | "function"): ApiError {
  const code = of === "response" ? "invalid_json_schema" : "invalid_function_parameters";
  return fault(code, path, (f) => `Invalid schema for '${f}': ${explanation}`, explanation);
}

function nameOfType(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "number") return Number.isInteger(value) ? "an integer" : "a decimal number";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
