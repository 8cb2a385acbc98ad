/** The result of reading one piece of text. */
export type CallProgress = {
  /**
   * The number of UTF-16 units of the piece that belong to the call; the rest is to be given again, with more behind
   * it.
   */
  readonly consumed: number;
  /** The JSON text of the arguments that may go out now. Empty until the name is known. */
  readonly arguments: string;
  /** Whether the call goes on, has ended with this piece, or turned out to be none. */
  readonly state: "open" | "closed" | "malformed";
};

/** Reads one call in the form of its family, from the character behind its opening mark to its closing mark. */
export type CallReader = {
  /** The name of the tool, once it and the start of the arguments have been seen and it is a known one. */
  readonly startedName: string | undefined;
  /** Whether the name has been read and is that of no tool. */
  readonly nameIsUnknown: boolean;
  /** Whether more than the mark that begins a group has been read. Absent: it always has. */
  readonly isPastLead?: boolean;
  /** The id that the model gave the call; undefined where it gave none, or before the name is known. */
  readonly callId?: string | undefined;
  /** Whether the arguments that have gone out are a whole JSON object. */
  readonly argumentsAreWhole: boolean;
  /** Takes the next piece of the call. */
  push(text: string): CallProgress;
  /**
   * Returns the JSON text of the arguments that was held back, where the output ends inside the call with `rest`, which
   * the reader has not taken: where these are marks of the call's end the arguments are whole then. Absent: nothing is
   * ever held back.
   */
  flush?(rest: string): string;
};

/** Returns whether a character is white space of JSON. */
export const isSpace = (char: string): boolean => char === " " || char === "\n" || char === "\t" || char === "\r";

/** The longest name of a tool, in UTF-16 units; a longer one is none. */
export const MAX_NAME = 256;

/** Returns where the white space at `from` ends. */
export function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text.charAt(at))) at += 1;
  return at;
}

/**
 * Returns which of the marks stands at `from`; `"partly"` where with more text one could, or a longer one than does.
 * An empty mark stands nowhere.
 */
export function markAt(
  text: string,
  from: number,
  marks: readonly string[],
): { readonly mark: string } | "partly" | undefined {
  let partly = false;
  let longest = "";
  for (const mark of marks) {
    if (mark.length <= longest.length) continue;
    if (text.startsWith(mark, from)) longest = mark;
    else if (mark.startsWith(text.slice(from, from + mark.length))) partly = true;
  }
  if (partly) return "partly";
  return longest === "" ? undefined : { mark: longest };
}
