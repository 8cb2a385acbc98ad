/** The error for a stream that breaks its format; the message is the broken rule, without text of the stream. */
export class StreamFault extends Error {
  override readonly name = "StreamFault";
}

/** Throws `StreamFault` unless `condition` holds. */
export function must(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new StreamFault(rule);
}

/** One frame of an event stream: parsed JSON, the text `[DONE]`, or undefined for a comment. */
export type Frame = { readonly event: string | undefined; readonly data: unknown };

/**
 * Returns the frames of a whole stream, read as strictly as by the strictest client. Throws `StreamFault` for one that
 * is cut, empty, or not one line of data.
 */
export function framesOf(text: string): Frame[] {
  if (text === "") return [];
  must(text.endsWith("\n\n"), "a stream ends behind a whole frame");
  return text
    .slice(0, -2)
    .split("\n\n")
    .map((frame) => {
      const match = /^(?::[^\r\n]*|(?:event: ([a-z_.]+)\n)?data: ([^\r\n]+))$/.exec(frame);
      must(match !== null, "a frame is a comment, or at most one event line and exactly one data line");
      const [, event, data] = match;
      return { event, data: data === undefined || data === "[DONE]" ? data : parsed(data) };
    });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new StreamFault("the data is JSON");
  }
}

export function isObjectText(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** Throws `StreamFault` unless the ids are distinct, with the characters and the length that every client accepts. */
export function mustBeIds(ids: readonly unknown[], prefix: string): void {
  must(new Set(ids).size === ids.length, "every id occurs once");
  const form = new RegExp(`^${prefix}[A-Za-z0-9_-]{1,${64 - prefix.length}}$`);
  must(
    ids.every((id) => form.test(String(id))),
    `an id is ${prefix} and a name`,
  );
}

/** The words of a part of a stream, in order: a regular expression for each, with a space behind the word. */
export type Steps = readonly string[];

export function whole(steps: Steps): string {
  return steps.join("");
}

/** Returns the expression of a part that ends behind any of its steps. */
export function begun(steps: Steps): string {
  return steps.reduceRight((rest, step) => `(?:${step}${rest})?`, "");
}

/**
 * Throws `StreamFault` unless the words of a stream's frames match `grammar`. The word `alive` may stand anywhere but
 * behind the end, and is no part of the grammar.
 */
export function mustMatch(words: readonly string[], grammar: string): void {
  must(words.at(-1) !== "alive", "no sign of life stands behind the end");
  const said = words.filter((word) => word !== "alive").map((word) => `${word} `);
  must(new RegExp(`^(?:${grammar})$`).test(said.join("")), "the frames are in the order of the format");
}
