import * as z from "zod";
import { literal, sequence } from "../gbnf/gbnf.ts";
import { mark, opening, spaceBefore, spaceBehind, text } from "./marks.ts";
import type { TaggedCallMarks } from "./readers/tagged-call-marks.ts";
import { TaggedCallReader } from "./readers/tagged-call-reader.ts";
import { toolCallForm } from "./tool-call-form.ts";

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

  reading(markers, tools) {
    const marks: TaggedCallMarks = {
      opens: [markers.open.trim()],
      nameEnd: "",
      headEnd: "",
      parameterOpen: markers.keyOpen.trim(),
      keyEnds: [{ mark: markers.keyClose.trim(), value: "by-schema" }],
      valueOpen: markers.valueOpen.trim(),
      valueLead: spaceBehind(markers.valueOpen),
      valueTail: spaceBefore(markers.valueClose),
      valueClose: () => markers.valueClose.trim(),
      callClose: markers.close.trim(),
      outerClose: "",
      escapesKeys: false,
      nests: false,
    };
    return {
      openers: [markers.open.trim()],
      opensAtBrace: false,
      next: "",
      close: "",
      separator: markers.separator,
      newReader: () => new TaggedCallReader(marks, tools.names, tools.argumentTypes),
    };
  },

  markup({ open, close, separator, keyOpen, keyClose, valueOpen, valueClose }) {
    return {
      ...opening(open, ""),
      begins: (name) => name,
      rest: (_, args) => sequence(args, literal(close)),
      tags: {
        open: keyOpen,
        key: (key) => key,
        keyEnds: () => [keyClose + valueOpen],
        after: () => valueClose,
        close: valueClose.trim(),
        tellsKind: false,
      },
      between: separator + open,
      close: "",
    };
  },
});
