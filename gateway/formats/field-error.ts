import { ApiError, type ErrorCode, type FieldPath } from "../errors.ts";
import { bracketPath, dottedPath } from "./error-envelope.ts";

/*
 * Faults of one field, worded as both formats word them. The path is the only part of the request that a message
 * repeats, and a path only has keys from our own tables, never a key that the caller invented.
 */

/** `a` has the path in the place of its `%`. */
function fault(code: ErrorCode, path: FieldPath, a: string, b: string): ApiError {
  const wording = { a: a.replace("%", () => bracketPath(path)), b: `${dottedPath(path)}: ${b}` };
  return new ApiError(code, wording, { path });
}

export function missing(path: FieldPath): ApiError {
  return fault("missing_required_parameter", path, "Missing required parameter: '%'.", "Field required");
}

/** `expected` is a noun with its article: "a number", "an array of strings". */
export function wrongType(path: FieldPath, expected: string, got: unknown): ApiError {
  const a = `Invalid type for '%': expected ${expected}, but got ${nameOfType(got)} instead.`;
  return fault("invalid_type", path, a, `Input should be ${expected}`);
}

/** `integer`: whether the value is an integer. */
export function belowMinimum(path: FieldPath, minimum: number, integer: boolean): ApiError {
  const code = integer ? "integer_below_min_value" : "decimal_below_min_value";
  const a = `Invalid '%': expected a value >= ${minimum}.`;
  return fault(code, path, a, `Input should be greater than or equal to ${minimum}`);
}

/** `integer`: whether the value is an integer. */
export function aboveMaximum(path: FieldPath, maximum: number, integer: boolean): ApiError {
  const code = integer ? "integer_above_max_value" : "decimal_above_max_value";
  const a = `Invalid '%': expected a value <= ${maximum}.`;
  return fault(code, path, a, `Input should be less than or equal to ${maximum}`);
}

export function tooLong(path: FieldPath, maximum: number): ApiError {
  const a = `Invalid '%': string too long. Expected a string with maximum length ${maximum}.`;
  return fault("string_above_max_length", path, a, `String should have at most ${maximum} characters`);
}

export function tooMany(path: FieldPath, maximum: number): ApiError {
  const a = `Invalid '%': array too long. Expected an array with maximum length ${maximum}.`;
  return fault("array_above_max_length", path, a, `List should have at most ${maximum} items`);
}

export function emptyArray(path: FieldPath): ApiError {
  const a = "Invalid '%': empty array. Expected an array with minimum length 1.";
  return fault("empty_array", path, a, "List should have at least 1 item");
}

/** Makes the error for any other wrong value. `explanation` is a sentence of ours, here and below. */
export function invalidValue(path: FieldPath, explanation: string): ApiError {
  return fault("invalid_value", path, `Invalid value for '%': ${explanation}`, explanation);
}

export function oneOf(path: FieldPath, allowed: readonly string[]): ApiError {
  const list = allowed.map((value) => `'${value}'`).join(", ");
  return fault(
    "invalid_value",
    path,
    `Invalid value for '%'. Supported values are: ${list}.`,
    `Input should be ${list}`,
  );
}

export function unsupportedParameter(path: FieldPath, explanation = ""): ApiError {
  const more = explanation && ` ${explanation}`;
  const a = `Unsupported parameter: '%' is not supported.${more}`;
  return fault("unsupported_parameter", path, a, `This field is not supported.${more}`);
}

export function unsupportedValue(path: FieldPath, explanation: string): ApiError {
  return fault("unsupported_value", path, `Unsupported value: '%'. ${explanation}`, explanation);
}

/** Makes the error for what only a vendor's service runs; `subject` begins the sentence, `path` leads to its type. */
export function hostedTool(subject: string, path: FieldPath): ApiError {
  const words = (place: string) => `${subject} in '${place}' is not supported: only tools that the caller runs are.`;
  const wording = { a: words(bracketPath(path)), b: words(dottedPath(path)) };
  return new ApiError("unsupported_value", wording, { path, detail: "vendor_tool" });
}

/** Makes the error for an unknown key of the object at `within`; a key that does not look like one is not shown. */
export function unknownParameter(key: string, within: FieldPath = []): ApiError {
  const path = [...within, /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/.test(key) ? key : "?"];
  return fault("unknown_parameter", path, "Unknown parameter: '%'.", "Extra inputs are not permitted");
}

export function invalidSchema(path: FieldPath, explanation: string, of: "response" | "function"): ApiError {
  const code = of === "response" ? "invalid_json_schema" : "invalid_function_parameters";
  return fault(code, path, `Invalid schema for '%': ${explanation}`, explanation);
}

function nameOfType(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "number") return Number.isInteger(value) ? "an integer" : "a decimal number";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** The same for unknown ids, those of other sockets and callers, and those that were dropped. */
export function previousNotFound(): ApiError {
  const text = "Previous response not found on this WebSocket. Send the whole conversation in 'input' instead.";
  return new ApiError("previous_response_not_found", text, { path: ["previous_response_id"] });
}
