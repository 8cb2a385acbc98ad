import type { CallMarkup } from "./tool-call-form.ts";

export type WrittenMarks = {
  readonly prefix: string;
  /** The marks, none of which is a prefix of another. */
  readonly marks: readonly string[];
};

/** The maximum prefixes of names that distinguish calls: each is a rule of a grammar. */
const MAX_BEGINNINGS = 512;

/** All marks before the name joined and, if that is a single mark, the beginning of the call, up to 512 prefixes. */
export function writtenMarks(markup: CallMarkup, names: readonly string[]): WrittenMarks {
  const prefix = (markup.open + markup.behindOpen).trimStart();
  if (markup.behindOpen.trim() !== "") return { prefix, marks: [prefix] };
  const begun = [...new Set(names.map((name) => markup.begins(name)))];
  const length = tellingLength(begun);
  const cut = [...new Set(begun.map((text) => text.slice(0, length)))];
  const shortest = cut.filter((text) => !cut.some((other) => other !== text && text.startsWith(other)));
  return { prefix, marks: shortest.map((text) => prefix + text) };
}

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
