import * as z from "zod";
import { literal, sequence } from "../gbnf/gbnf.ts";
import { mark, openersOf, opening } from "./marks.ts";
import { type BareKeyCallMarks, BareKeyCallReader } from "./readers/bare-key-call-reader.ts";
import { toolCallForm } from "./tool-call-form.ts";

/** Calls whose arguments are an object with bare keys, and texts between special marks (Gemma 4). */
export const bareKeys = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("bare-keys"),
      open: mark.describe("The mark before a call."),
      namePrefix: mark.describe("The text between `open` and the name."),
      otherNamePrefixes: z
        .array(mark)
        .default([])
        .describe("The texts that models write instead of `namePrefix`; they are parsed, but never written."),
      textClose: mark.describe("The mark before and after a text, which has no escapes."),
      close: mark.describe("The mark after a call."),
    })
    .describe("`open namePrefix NAME{KEY:textClose TEXT textClose,KEY:42,…}close`"),

  usable: (markers, { isKnown }) =>
    [markers.open, markers.textClose, markers.close].every(isKnown) ? markers : undefined,

  reading({ open, namePrefix, otherNamePrefixes, textClose, close }, tools) {
    const marks: BareKeyCallMarks = { heads: [namePrefix, ...otherNamePrefixes], textMark: textClose, close };
    return {
      openers: openersOf(open),
      opensAtBrace: false,
      next: "",
      close: "",
      strays: [close],
      separator: "",
      newReader: () => new BareKeyCallReader(marks, tools.names, tools.argumentTypes),
    };
  },

  // A grammar writes the content of objects and lists as JSON, which the reader accepts.
  markup({ open, namePrefix, textClose, close }) {
    return {
      ...opening(open, namePrefix),
      begins: (name) => name,
      rest: (_, args) => sequence(literal("{"), args, literal(`}${close}`)),
      tags: {
        open: "",
        key: (key) => (/^[^\s{}[\],:<>"]+$/.test(key) ? key : textClose + key + textClose),
        keyEnds: (kind) => [kind === "text" ? `:${textClose}` : ":"],
        after: (_, kind) => (kind === "text" ? textClose : ""),
        close: textClose,
        tellsKind: true,
        between: ",",
        notInKeys: '{}[],:<>" ',
      },
      between: open + namePrefix,
      close: "",
    };
  },
});
