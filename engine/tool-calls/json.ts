import * as z from "zod";
import { ARGUMENTS_KEY, ARGUMENTS_KEYS, jsonObjectCall } from "./json-object-call.ts";
import { mark, opening, text } from "./marks.ts";
import { JsonCallReader } from "./readers/json-call-reader.ts";
import { toolCallForm } from "./tool-call-form.ts";

/** Calls as objects between marks (Hermes, Qwen); several calls have several pairs of marks. */
export const json = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("json"),
      open: mark.describe("The mark before a call."),
      close: mark.describe("The mark after a call."),
      afterOpen: text.describe("The white space that the template writes after `open`."),
      beforeClose: text.describe("The white space that the template writes before `close`."),
      separator: text.describe("The text between the visible text and the first call, and between two calls."),
    })
    .describe('`open afterOpen {"name": …, "arguments": {…}} beforeClose close`'),

  usable: (markers, { isKnown }) => (isKnown(markers.open) && isKnown(markers.close) ? markers : undefined),

  reading({ open, close, separator }, { names, argumentTypes }) {
    const options = { close, argumentsKeys: ARGUMENTS_KEYS, otherKeys: "any" } as const;
    const newReader = () => new JsonCallReader(options, names, argumentTypes);
    return { openers: [open], opensAtBrace: false, next: "", close: "", separator, newReader };
  },

  markup({ open, afterOpen, beforeClose, close, separator }) {
    return {
      ...opening(open, afterOpen),
      ...jsonObjectCall(ARGUMENTS_KEY, beforeClose + close),
      between: separator + open + afterOpen,
      close: "",
    };
  },
});
