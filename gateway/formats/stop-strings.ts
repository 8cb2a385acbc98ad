/** The most stop strings that one request may have. */
export const MAX_STOP_STRINGS = 16;

/**
 * Returns the stop strings of a body, which has one or a list of them. Empty strings are dropped, as they would end
 * every answer at once.
 */
export function stopStrings(value: string | readonly string[] | null | undefined): readonly string[] {
  return [value ?? []].flat().filter((text) => text !== "");
}
