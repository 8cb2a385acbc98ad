import type { CallMarkup } from "./tool-call-form.ts";

/** The marks that distinguish a call as the template writes it from a mere mention of a mark. */
export type WrittenMarks = {
  readonly prefix: string;
  /** The marks, none of which is a prefix of another. */
  readonly marks: readonly string[];
};

/** The maximum prefixes of names that distinguish calls: each is a rule of a grammar. */
const MAX_BEGINNINGS = 512;

/**
 * Returns the marks that distinguish a call of the tools `names` from a mentioned mark: all marks before the name
 * joined and, if that is a single mark, also the beginning of the call (in most forms the name). With many names, only
 * as many characters count as make 512 prefixes.
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

/** Returns how many leading characters of the texts count, at least one, within the limit on prefixes. */
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
