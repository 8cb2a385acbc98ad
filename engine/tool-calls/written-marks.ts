import type { CallMarkup } from "./tool-call-form.ts";

/** The marks by which a call as the template writes it is told from marks of calls that are only mentioned. */
export type WrittenMarks = {
  /** The text with which all of them begin. */
  readonly prefix: string;
  /** The marks, none of which begins with another one. */
  readonly marks: readonly string[];
};

/** The most beginnings of names that tell calls apart: each is a rule of a grammar. */
const MAX_BEGINNINGS = 512;

/**
 * Returns what tells a call of the tools `names` from a mark that is mentioned: all marks before its name as one, and
 * where that is one mark alone the beginning of the call too, which is the name in most forms. Of many names as much
 * counts as makes 512 beginnings.
 */
export function writtenMarks(markup: CallMarkup, names: readonly string[]): WrittenMarks {
  const prefix = (markup.open + markup.behindOpen).trimStart();
  if (markup.behindOpen.trim() !== "") return { prefix, marks: [prefix] };
  const begun = [...new Set(names.map((name) => markup.begins(name)))];
  const length = tellingLength(begun);
  const cut = [...new Set(begun.map((text) => text.slice(0, length)))];
  const shortest = cut.filter((text) => !cut.some((other) => other !== text && text.startsWith(other)));
  return { prefix, marks: shortest.map((text) => prefix + text) };
}

/** Returns how many characters of the texts count, at least one, so that these have not too many beginnings. */
function tellingLength(texts: readonly string[]): number {
  const longest = Math.max(...texts.map((text) => text.length));
  let beginnings = 0;
  for (let length = 1; length <= longest; length += 1) {
    const long = texts.filter((text) => text.length >= length);
    beginnings += new Set(long.map((text) => text.slice(0, length))).size;
    if (beginnings > MAX_BEGINNINGS) return Math.max(1, length - 1);
  }
  return longest;
}
