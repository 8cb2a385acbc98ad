import { ApiError, type ErrorCode } from "../errors.ts";

/** The rule for content that a model cannot read: refused with its path, or replaced by a text. */
export type UnreadableRule = "reject" | "placeholder";

/** The error codes of content that is well-formed but unreadable for the model. */
const UNREADABLE: ReadonlySet<ErrorCode> = new Set(["unsupported_value", "unsupported_parameter", "invalid_value"]);

/**
 * Reads content that the model may be unable to read, such as `an image`. Agents resend the results of their tools with
 * every later turn, so a refusal there would end the session: with the rule `placeholder`, `instead` receives a text
 * for the model. Throws `ApiError` as `read` does for malformed content, and with the rule `reject`.
 */
export function readOr<Content>(
  rule: UnreadableRule,
  what: string,
  read: () => Content,
  instead: (text: string) => Content,
): Content {
  try {
    return read();
  } catch (error) {
    if (rule === "reject" || !(error instanceof ApiError) || !UNREADABLE.has(error.code)) throw error;
    return instead(`[Here was ${what}, which this model cannot read.]`);
  }
}
