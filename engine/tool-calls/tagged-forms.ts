import * as z from "zod";
import { charsOf, EMPTY, markup, repeat, sequence } from "../gbnf/gbnf.ts";
import type { CallableTools } from "./call-reader.ts";
import { allOf, type Mark, MarkSpellings } from "./mark-spellings.ts";
import { type KeyEnd, type TaggedCallMarks, TaggedCallReader, TaggedCallSets } from "./tagged-call-reader.ts";
import {
  flag,
  type Group,
  groupedCalls,
  mark,
  opening,
  readOnce,
  spaceBefore,
  spaceBehind,
  text,
  toolCallForm,
  UNGROUPED,
} from "./tool-call-form.ts";

const endOf = (type: string) => mark.describe(`The mark after the key of a parameter that is ${type}.`);
const endsByType = z.strictObject({
  object: endOf("an object"),
  array: endOf("a list"),
  number: endOf("a number"),
  boolean: endOf("true or false"),
  null: endOf("null"),
});

const MAX_INDEX_DIGITS = 4;

const NO_MARK: Mark = { signed: [], plain: [] };

/** What forms without such marks leave out. */
const NONE = {
  nameEnd: "",
  headEnd: "",
  outerOpen: NO_MARK,
  outerClose: NO_MARK,
  keyClose: NO_MARK,
  valueOpen: "",
  valueLead: "",
  valueTail: "",
  escapesKeys: false,
  tagMark: "",
} as const;

/** The marks around calls, of which several stand between one outer pair. */
const callGroup = {
  open: mark.describe("The mark before all calls."),
  close: mark.describe("The mark after all calls."),
  separator: text.describe("The white space that the template writes before `open` and after `close`."),
  callOpen: mark.describe("The mark before a call, which its name follows."),
  callNameEnd: mark.describe("The mark after the name of a call."),
  callClose: mark.describe("The mark after a call."),
};

/** Tags with the names of the tool and of each parameter (Qwen3-Coder, MiniMax-M2, DeepSeek-V3.2, Kimi-K3). */
export const namedTags = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("named-tags"),
      ...callGroup,
      callIndexOpen: text.describe(
        "The text between `callNameEnd` and the number of the call, which counts from 1; empty if none is written.",
      ),
      callIndexClose: text.describe("The text after the number of the call."),
      callHeadEnd: text.describe("The mark after everything beside the name of a call; empty if there is nothing."),
      parameterOpen: mark.describe("The mark before a parameter, which its key follows."),
      parameterNameEnd: mark.describe("The mark after the key of a parameter."),
      parameterClose: mark.describe("The mark after the value of a parameter."),
      typedNameEnds: z
        .strictObject({
          text: mark.describe("The mark after the key of a parameter whose value is text."),
          json: z
            .union([mark, endsByType])
            .describe("The mark after the key of any other parameter, or one for each type of values."),
        })
        .optional()
        .describe("The marks in place of `parameterNameEnd` where a parameter states the type of its value."),
      escapedKeys: flag.describe('Whether keys are written with `&quot;` for `"` and `&amp;` for `&`.'),
      oneCall: flag.describe("Whether every call has its own outer marks, so that several calls are several groups."),
    })
    .describe(
      "`open callOpen NAME callNameEnd callIndexOpen INDEX callIndexClose callHeadEnd parameterOpen KEY parameterNameEnd VALUE parameterClose … callClose close`",
    ),

  usable: (markers, { isKnown }) =>
    [markers.open, markers.callOpen, markers.parameterOpen].every(isKnown) ? markers : undefined,

  reading: readOnce((markers) => {
    const { open, close, callOpen, callClose, parameterOpen, parameterClose } = markers;
    const spellings = new MarkSpellings([open, close, callOpen, callClose, parameterOpen, parameterClose]);
    const valueClose = spellings.of(parameterClose);
    const marks: TaggedCallMarks = {
      ...NONE,
      callOpen: spellings.of(callOpen),
      outerOpen: spellings.of(open),
      nameEnd: markers.callNameEnd.trim(),
      headEnd: markers.callHeadEnd.trim(),
      parameterOpen: spellings.of(parameterOpen),
      keyEnds: keyEndsOf(markers),
      valueLead: spaceBehind(markers.parameterNameEnd),
      valueTail: spaceBefore(parameterClose),
      // Models close a parameter by its key, too.
      valueClose: (key) => (key === "" ? valueClose : { ...valueClose, plain: [...valueClose.plain, `</${key}>`] }),
      callClose: spellings.of(callClose),
      outerClose: spellings.outer(close),
      escapesKeys: markers.escapedKeys,
    };
    return taggedReading(marks, groupedCalls(markers, spellings, false));
  }),

  markup(markers) {
    const { open, close, separator, callOpen, callNameEnd, callClose, oneCall } = markers;
    const { callIndexOpen, callIndexClose, callHeadEnd } = markers;
    const { parameterOpen, parameterNameEnd, parameterClose, typedNameEnds, escapedKeys } = markers;
    const index = callIndexOpen === "" ? EMPTY : repeat(charsOf("09"), 1, MAX_INDEX_DIGITS);
    return {
      ...opening(open, callOpen, callOpen),
      begins: (name) => name,
      rest: (_, args) =>
        sequence(
          markup(callNameEnd + callIndexOpen),
          index,
          markup(callIndexClose + callHeadEnd),
          args,
          markup(callClose),
        ),
      tags: {
        open: parameterOpen,
        key: (key) => (escapedKeys ? key.replaceAll("&", "&amp;").replaceAll('"', "&quot;") : key),
        keyEnds(kind, types) {
          if (typedNameEnds === undefined) return [parameterNameEnd];
          return kind === "text" ? [typedNameEnds.text] : jsonEnds(typedNameEnds.json, types);
        },
        after: () => parameterClose,
        close: parameterClose.trim(),
        distinguishesKind: typedNameEnds !== undefined,
      },
      between: oneCall ? close + separator + open + callOpen : callOpen,
      close,
    };
  },
});

function taggedReading(marks: TaggedCallMarks, { reading, leadOf, isPlain }: Group) {
  const sets = new TaggedCallSets(marks);
  return (tools: CallableTools) => ({
    ...reading,
    newReader: (mark: string) => new TaggedCallReader(sets, tools, leadOf(mark), isPlain(mark)),
  });
}

type NameEnds = {
  readonly parameterNameEnd: string;
  readonly typedNameEnds?: { readonly text: string; readonly json: JsonEnds } | undefined;
};

/** The mark after the key of a parameter other than text: one for all, or one per type. */
type JsonEnds = string | Readonly<Record<string, string>>;

function jsonEnds(ends: JsonEnds, types?: ReadonlySet<string>): readonly string[] {
  if (typeof ends === "string") return [ends];
  const some = Object.entries(ends).flatMap(([type, end]) => (types === undefined || types.has(type) ? [end] : []));
  return some.length > 0 ? some : Object.values(ends);
}

function keyEndsOf({ parameterNameEnd, typedNameEnds }: NameEnds): readonly KeyEnd[] {
  const untyped: KeyEnd = { mark: parameterNameEnd.trim(), value: "by-schema" };
  if (typedNameEnds === undefined) return [untyped];
  const json = jsonEnds(typedNameEnds.json).map((each): KeyEnd => ({ mark: each.trim(), value: "json" }));
  return [{ mark: typedNameEnds.text.trim(), value: "text" }, ...json, untyped];
}

/**
 * Elements named after parameters (MiniMax-M3): text, or nested elements for members and, named `item`, for entries.
 */
export const elementTags = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("element-tags"),
      ...callGroup,
      tagMark: mark.describe("The mark before every tag."),
    })
    .describe("`open callOpen NAME callNameEnd tagMark<KEY>VALUE tagMark</KEY> … callClose close`"),

  usable: (markers, { isKnown }) =>
    [markers.open, markers.callOpen, markers.tagMark].every(isKnown) ? markers : undefined,

  reading: readOnce((markers) => {
    const { open, close, callOpen, callClose, tagMark } = markers;
    const spellings = new MarkSpellings([open, close, callOpen, callClose]);
    const marks: TaggedCallMarks = {
      ...NONE,
      callOpen: spellings.of(callOpen),
      // A parameter may have the tag of the outer mark, but not that of a call with its space.
      outerOpen: NO_MARK,
      nameEnd: markers.callNameEnd.trim(),
      parameterOpen: { signed: [`${tagMark}<`], plain: [] },
      keyEnds: [{ mark: ">", value: "by-schema" }],
      valueClose: (key) => (key === "" ? NO_MARK : spellings.of(`${tagMark}</${key}>`)),
      callClose: spellings.of(callClose),
      outerClose: spellings.outer(close),
      tagMark,
    };
    return taggedReading(marks, groupedCalls(markers, spellings, false));
  }),

  // A grammar writes objects and lists as JSON, which the reader accepts as well as elements.
  markup({ open, close, callOpen, callNameEnd, callClose, tagMark }) {
    return {
      ...opening(open, callOpen, callOpen),
      begins: (name) => name,
      rest: (_, args) => sequence(markup(callNameEnd), args, markup(callClose)),
      tags: {
        open: `${tagMark}<`,
        key: (key) => key,
        keyEnds: () => [">"],
        after: (key) => `${tagMark}</${key}>`,
        close: `${tagMark}</`,
        distinguishesKind: false,
        nested: tagMark,
      },
      between: callOpen,
      close,
    };
  },
});

/** Calls with keys and values in separate tags (GLM). */
export const keyValueTags = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("key-value-tags"),
      open: mark.describe("The mark before a call."),
      close: mark.describe("The mark after a call."),
      separator: text.describe("The text between the visible text and the first call, and between two calls."),
      keyOpen: mark.describe("The mark before the key of a parameter."),
      keyClose: mark.describe("The mark after the key of a parameter."),
      valueOpen: mark.describe("The mark before the value of a parameter."),
      valueClose: mark.describe("The mark after the value of a parameter."),
    })
    .describe("`open NAME keyOpen KEY keyClose valueOpen VALUE valueClose … close`"),

  usable: (markers, { isKnown }) =>
    [markers.open, markers.keyOpen, markers.valueOpen].every(isKnown) ? markers : undefined,

  reading: readOnce((markers) => {
    const { open, close, keyOpen, keyClose, valueOpen, valueClose } = markers;
    const spellings = new MarkSpellings([open, close, keyOpen, keyClose, valueOpen, valueClose]);
    const marks: TaggedCallMarks = {
      ...NONE,
      callOpen: spellings.of(open),
      parameterOpen: spellings.of(keyOpen),
      keyEnds: [{ mark: keyClose.trim(), value: "by-schema" }],
      keyClose: spellings.of(keyClose),
      valueOpen: valueOpen.trim(),
      valueLead: spaceBehind(valueOpen),
      valueTail: spaceBefore(valueClose),
      valueClose: () => spellings.of(valueClose),
      callClose: spellings.of(close),
    };
    const sets = new TaggedCallSets(marks);
    const closers = allOf(spellings.strayClosers([close, keyClose, valueClose])).marks;
    const { separator } = markers;
    const reading = { ...UNGROUPED, openers: [open.trim()], callClose: close.trim(), closers, separator };
    return (tools) => ({ ...reading, newReader: () => new TaggedCallReader(sets, tools) });
  }),

  markup({ open, close, separator, keyOpen, keyClose, valueOpen, valueClose }) {
    return {
      ...opening(open, ""),
      begins: (name) => name,
      rest: (_, args) => sequence(args, markup(close)),
      tags: {
        open: keyOpen,
        key: (key) => key,
        keyEnds: () => [keyClose + valueOpen],
        after: () => valueClose,
        close: valueClose.trim(),
        distinguishesKind: false,
      },
      between: separator + open,
      close: "",
    };
  },
});
