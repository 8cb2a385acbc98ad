import * as z from "zod";
import type { Gbnf } from "../gbnf/gbnf.ts";
import type { CallableTools, CallLead, CallReader } from "./call-reader.ts";
import { allOf, type MarkSpellings } from "./mark-spellings.ts";

export type CallReading = {
  readonly openers: readonly string[];
  /** The openers that begin a call without the mark around all calls, or without the family's sign. */
  readonly doubtful: { readonly inLine: readonly string[]; readonly anywhere: readonly string[] };
  /** Whether a brace at the start of the text also begins a call. */
  readonly opensAtBrace: boolean;
  readonly next: string;
  readonly close: string;
  /** The mark after a single call; "" for none. */
  readonly callClose: string;
  /** The closing marks that are dropped behind a call, `close` among them; none if a call has no such marks. */
  readonly closers: readonly string[];
  /** Marks that models have tokens for: one without a call is dropped, never text. */
  readonly strays?: readonly string[];
  /** Closing marks that no text has but by mistake: they are dropped, unless they are quoted or their call is text. */
  readonly looseClosers?: readonly string[];
  readonly separator: string;
  /** `mark`: one of `openers`, `next`, or "" for a brace, which the reader consumes. */
  readonly newReader: (mark: string) => CallReader;
};

/** Calls of which each stands alone, between marks of its own. */
export const UNGROUPED = {
  doubtful: { inLine: [], anywhere: [] },
  opensAtBrace: false,
  next: "",
  close: "",
  callClose: "",
  closers: [],
  separator: "",
} as const;

export type ParameterTags = {
  readonly open: string;
  readonly key: (key: string) => string;
  /** The possible texts between a key and its value, by the value's kind and `types`. */
  readonly keyEnds: (kind: "text" | "json", types?: ReadonlySet<string>) => readonly string[];
  readonly after: (key: string, kind: "text" | "json") => string;
  readonly close: string;
  /** Whether `keyEnds` depends on the kind of a value; text is then used for strings only. */
  readonly distinguishesKind: boolean;
  /** The mark that begins every tag, if a value may consist of parameters. Absent: values are text or JSON. */
  readonly nested?: string;
  readonly between?: string;
  readonly notInKeys?: string;
};

export type CallMarkup = {
  readonly open: string;
  readonly behindOpen: string;
  /** A further mark that begins calls, for models that omit `open`; "" for none. */
  readonly otherOpen: string;
  readonly behindOtherOpen: string;
  readonly otherCalls?: readonly { readonly mark: string; readonly call: (name: string, args: Gbnf) => Gbnf }[];
  /** The text of a call up to its name, where no mark precedes it and calls begin at the start of the text only. */
  readonly head?: string;
  /** Returns the leading text of a call of that tool that distinguishes it from a mentioned mark. */
  readonly begins: (name: string) => string;
  /** Returns the grammar of the rest of such a call. Arguments are JSON or, with `tags`, parameters between tags. */
  readonly rest: (name: string, args: Gbnf) => Gbnf;
  readonly tags?: ParameterTags;
  readonly between: string;
  readonly close: string;
};

type KnownMarks = {
  readonly template: string;
  readonly isKnown: (mark: string) => boolean;
};

export type CallBehaviour<Markers> = {
  /** Returns the marks that the model can write; undefined if it cannot call tools with them. */
  readonly usable: (markers: Markers, model: KnownMarks) => Markers | undefined;
  /** Returns how calls are read from an output; undefined if only the engine's own parser reads them. */
  readonly reading: (markers: Markers, tools: CallableTools) => CallReading | undefined;
  /** How a grammar writes calls; undefined if only the engine's own parser reads them. */
  readonly markup: (markers: Markers) => CallMarkup | undefined;
};

type ToolCallForm<Schema extends z.ZodObject> = CallBehaviour<Readonly<z.output<Schema>>> & {
  /** The literal `form` is the name of the form; fields without text in the template are omitted. */
  readonly schema: Schema;
};

export function toolCallForm<Schema extends z.ZodObject>(form: ToolCallForm<Schema>): ToolCallForm<Schema> {
  return form;
}

export const mark = z.string().min(1);

export const text = z.string().default("");

export const flag = z.boolean().default(false);

/** Marks that a model may write, and the template never does. */
export const others = (meaning: string) =>
  z.array(mark).default([]).describe(`${meaning}; they are parsed, but never written.`);

export function openersOf(...marks: readonly string[]): readonly string[] {
  return marks.map((each) => each.trim()).filter((each) => each !== "");
}

export const spaceBehind = (of: string) => of.slice(of.trimEnd().length);

export const spaceBefore = (of: string) => of.slice(0, of.length - of.trimStart().length);

type Opening = Pick<CallMarkup, "open" | "behindOpen" | "otherOpen" | "behindOtherOpen">;

/** Trailing white space is separated from a mark: after a mark that is a token, it must still be generated. */
export function opening(open: string, behind: string, other = ""): Opening {
  return {
    open: open.trimEnd(),
    behindOpen: spaceBehind(open) + behind,
    otherOpen: other.trimEnd(),
    behindOtherOpen: spaceBehind(other),
  };
}

type GroupMarks = {
  readonly open: string;
  readonly close: string;
  readonly callOpen: string;
  readonly callClose: string;
  readonly otherCallOpens?: readonly string[];
  readonly separator: string;
};

export type Group = {
  readonly reading: Omit<CallReading, "newReader">;
  /** The marks that come behind an opener before its call; undefined where none does. */
  readonly leadOf: (opener: string) => CallLead | undefined;
  /** Whether an opener lacks the family's sign. */
  readonly isPlain: (opener: string) => boolean;
};

/**
 * Calls of which several stand between one outer pair of marks. Models omit the outer opening mark, so the mark of a
 * call counts as well. With `dropsStrays` the outer marks are dropped where no call stands.
 */
export function groupedCalls(
  { separator, otherCallOpens = [], ...marks }: GroupMarks,
  spellings: MarkSpellings,
  dropsStrays: boolean,
): Group {
  const outer = spellings.outer(marks.open);
  const next = spellings.of(marks.callOpen);
  const closers = spellings.strayClosers([marks.close, marks.callClose]);
  const outers = allOf(outer);
  const lead: CallLead = { next: allOf(next), outer: outers, close: allOf(closers) };
  const reading = {
    ...UNGROUPED,
    openers: [...outer.signed, ...next.signed, ...openersOf(...otherCallOpens), ...outer.plain, ...next.plain],
    doubtful: { inLine: marks.open === "" ? [] : next.signed, anywhere: next.plain },
    next: marks.open === "" ? "" : marks.callOpen.trim(),
    close: marks.close.trim(),
    callClose: marks.callClose.trim(),
    closers: lead.close.marks,
    strays: dropsStrays ? [...outer.signed, ...spellings.of(marks.close).signed] : [],
    looseClosers: spellings.hasSign ? closers.signed : [],
    separator,
  };
  return {
    reading,
    leadOf: (opener) => (outers.has(opener) ? lead : undefined),
    isPlain: (opener) => next.plain.includes(opener),
  };
}

/** Makes of a profile's marks, once, what the reading of every answer needs. */
export function readOnce<Markers extends object>(
  prepare: (markers: Markers) => (tools: CallableTools) => CallReading,
): (markers: Markers, tools: CallableTools) => CallReading {
  const prepared = new WeakMap<Markers, (tools: CallableTools) => CallReading>();
  return (markers, tools) => {
    const reading = prepared.get(markers) ?? prepare(markers);
    prepared.set(markers, reading);
    return reading(tools);
  };
}

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
  const length = distinguishingLength(begun);
  const cut = [...new Set(begun.map((text) => text.slice(0, length)))];
  const shortest = cut.filter((text) => !cut.some((other) => other !== text && text.startsWith(other)));
  return { prefix, marks: shortest.map((text) => prefix + text) };
}

function distinguishingLength(texts: readonly string[]): number {
  const longest = Math.max(...texts.map((text) => text.length));
  let beginnings = 0;
  for (let length = 1; length <= longest; length += 1) {
    const long = texts.filter((text) => text.length >= length);
    beginnings += new Set(long.map((text) => text.slice(0, length))).size;
    if (beginnings > MAX_BEGINNINGS) return Math.max(1, length - 1);
  }
  return longest;
}
