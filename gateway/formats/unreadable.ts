import { ApiError, type ErrorCode } from "../errors.ts";

/** What becomes of content that a model cannot take: it is refused with its path, or a text stands in its place. */
export type UnreadableRule = "reject" | "placeholder";

/** The codes of what is well-formed and cannot be read all the same. */
const UNREADABLE: ReadonlySet<ErrorCode> = new Set(["unsupported_value", "unsupported_parameter", "invalid_value"]);

/**
 * Reads content that the model may be unable to take, such as `an image`. Agents send what their tools once read with
 * every later turn, so that a refusal there would end the session: by `rule`, `instead` gets a text for the model then.
 * Throws `ApiError` as `read` does for content that has not even the form of such, and by the other rule.
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
