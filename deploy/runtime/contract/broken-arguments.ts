/**
 * Stands in the arguments of a call that the model broke, at the point where they stop being the beginning of a JSON
 * object. No JSON text contains it, and readers that complete or repair a truncated text refuse it in any state: inside
 * a string the escape is invalid, outside the comma, the backslash or the closing bracket is. Readers that cut the text
 * at its first fault (`partial-json`) are the exception.
 */
export const BREAK = ',\\u"{]"{]';

/** Returns arguments as the model wrote them. */
export function asWritten(argumentsJson: string): string {
  return argumentsJson.replace(BREAK, "");
}
