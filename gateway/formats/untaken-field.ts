import { ApiError, type FieldPath } from "../errors.ts";
import type { JsonObject } from "../json/json-text.ts";
import { unsupportedParameter } from "./field-error.ts";

/**
 * A field at the top of an open body of which nothing in the request is made. The list of a format is both what the
 * check goes by and what its users are told. A field that stands in no list is ignored.
 */
export type UntakenField = {
  /** The name of the field. */
  readonly field: string;
  /**
   * What becomes of the field. It is refused with 400 where leaving it out would change what the answer means, or would
   * have the caller believe something that is not so; it is ignored where it only steers, or tells about the caller.
   */
  readonly becomes: "refused" | "ignored";
  /** Why that is, or what to do instead, as sentences for the caller. */
  readonly why: string;
  /**
   * The values of a refused field that ask for nothing else than what happens without it, and so are taken; an empty
   * array stands for any empty array. Null is always one. Default: no others.
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
