import * as z from "zod";
import { literal, sequence } from "../gbnf/gbnf.ts";
import { groupedCalls } from "./grouped-calls.ts";
import { mark, opening, text } from "./marks.ts";
import type { TaggedCallMarks } from "./readers/tagged-call-marks.ts";
import { TaggedCallReader } from "./readers/tagged-call-reader.ts";
import { toolCallForm } from "./tool-call-form.ts";

/**
 * Elements named after parameters (MiniMax-M3): text, or nested elements for members and, named `item`, for entries.
 */
export const elementTags = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("element-tags"),
      open: mark.describe("The mark before all calls."),
      close: mark.describe("The mark after all calls."),
      separator: text.describe("The white space that the template writes before `open` and after `close`."),
      callOpen: mark.describe("The mark before a call, which its name follows."),
      callNameEnd: mark.describe("The mark after the name of a call."),
      callClose: mark.describe("The mark after a call."),
      tagMark: mark.describe("The mark before every tag."),
    })
    .describe("`open callOpen NAME callNameEnd tagMark<KEY>VALUE tagMark</KEY> … callClose close`"),

  usable: (markers, { isKnown }) =>
    [markers.open, markers.callOpen, markers.tagMark].every(isKnown) ? markers : undefined,

  reading(markers, tools) {
    const { tagMark, callOpen, callNameEnd, callClose, close } = markers;
    const marks: TaggedCallMarks = {
      // A parameter may have the tag of the outer mark, but not that of a call with its space.
      opens: [callOpen.trim()],
      nameEnd: callNameEnd.trim(),
      headEnd: "",
      parameterOpen: `${tagMark}<`,
      keyEnds: [{ mark: ">", value: "by-schema" }],
      valueOpen: "",
      valueLead: "",
      valueTail: "",
      valueClose: (key) => `${tagMark}</${key}>`,
      callClose: callClose.trim(),
      outerClose: close.trim(),
      escapesKeys: false,
      nests: true,
    };
    return groupedCalls(markers, () => new TaggedCallReader(marks, tools.names, tools.argumentTypes));
  },

  // A grammar writes objects and lists as JSON, which the reader accepts as well as elements.
  markup({ open, close, callOpen, callNameEnd, callClose, tagMark }) {
    return {
      ...opening(open, callOpen, callOpen),
      begins: (name) => name,
      rest: (_, args) => sequence(literal(callNameEnd), args, literal(callClose)),
      tags: {
        open: `${tagMark}<`,
        key: (key) => key,
        keyEnds: () => [">"],
        after: (key) => `${tagMark}</${key}>`,
        close: `${tagMark}</`,
        tellsKind: false,
        nested: tagMark,
      },
      between: callOpen,
      close,
    };
  },
});
