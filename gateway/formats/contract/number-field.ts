import type { FieldPath } from "../../errors.ts";
import { aboveMaximum, belowMinimum, invalidValue } from "../field-error.ts";

/**
 * Returns the value of a number field from `least` to `most`; undefined where it is absent. Throws `ApiError` for any
 * other value.
 */
export function numberWithin(
  value: number | undefined,
  path: FieldPath,
  least: number,
  most: number,
): number | undefined {
  if (value === undefined) return undefined;
  if (Number.isNaN(value)) throw invalidValue(path, "expected a number.");
  if (value < least) throw belowMinimum(path, least, Number.isInteger(value));
  if (value > most) throw aboveMaximum(path, most, Number.isInteger(value));
  return value;
}
