import { ApiError, type FieldPath } from "../errors.ts";
import type { JsonObject } from "../json/json-text.ts";
import { unsupportedParameter } from "./field-error.ts";

/**
 * A top-level field of an open body that does not reach the request. A format's list both controls the check and
 * generates the documentation. A field in no list is ignored.
 */
export type UntakenField = {
  /** The name of the field. */
  readonly field: string;
  /**
   * The treatment of the field. It is refused with 400 if leaving it out would change the meaning of the answer, or
   * would mislead the caller; it is ignored if it only tunes the service or describes the caller.
   */
  readonly becomes: "refused" | "ignored";
  /** The reason, or an alternative, as sentences for the caller. */
  readonly why: string;
  /**
   * The values of a refused field that mean the same as its absence, and are accepted; an empty array stands for any
   * empty array. Null is always one. Default: no others.
   */
  readonly neutral?: readonly (string | number | boolean | readonly never[])[];
  /** The `error.details` of a refusal in Format B, as some SDKs steer by it. Default: none. */
  readonly details?: Readonly<Record<string, unknown>>;
};

/** Throws `ApiError` `unsupported_parameter` for the first refused field that the body gives a value of meaning. */
export function refuseUntaken(body: JsonObject, fields: readonly UntakenField[]): void {
  for (const { field, becomes, why, neutral = [], details } of fields) {
    if (becomes !== "refused") continue;
    const value = body[field] ?? undefined;
    if (value === undefined || neutral.some((one) => isNeutral(value, one))) continue;
    const refusal = unsupportedParameter([field], why);
    throw details === undefined ? refusal : withDetails(refusal, [field], details);
  }
}

function isNeutral(value: unknown, neutral: string | number | boolean | readonly never[]): boolean {
  return Array.isArray(neutral) ? Array.isArray(value) && value.length === 0 : value === neutral;
}

function withDetails({ code, wording }: ApiError, path: FieldPath, details: Readonly<Record<string, unknown>>) {
  return new ApiError(code, wording, { path, details });
}
