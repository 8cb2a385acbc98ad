import * as z from "zod";
import { ARGUMENTS_KEY, ARGUMENTS_KEYS, jsonObjectCall } from "./json-object-call.ts";
import { mark, opening, text } from "./marks.ts";
import { JsonCallReader } from "./readers/json-call-reader.ts";
import { LeadingMarkReader } from "./readers/leading-mark-reader.ts";
import { toolCallForm } from "./tool-call-form.ts";

/** Calls as a list of objects after one mark (Mistral). */
export const jsonList = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("json-list"),
      open: mark.describe("The mark before the list."),
      close: text.describe("The mark after the list; empty if none is written."),
    })
    .describe('`open [{"name": …, "arguments": {…}}, …] close`'),

  usable: (markers, { isKnown }) => (isKnown(markers.open) && isKnown(markers.close) ? markers : undefined),

  reading(markers, { names, argumentTypes }) {
    const open = markers.open.trim();
    const options = { close: "", argumentsKeys: ARGUMENTS_KEYS, otherKeys: "any" } as const;
    const newReader = () => new JsonCallReader(options, names, argumentTypes);
    return {
      openers: [open],
      opensAtBrace: false,
      next: ",",
      close: `]${markers.close.trim()}`,
      separator: "",
      newReader: (found) => (found === open ? new LeadingMarkReader("[", newReader()) : newReader()),
    };
  },

  markup({ open, close }) {
    return {
      ...opening(open, "["),
      ...jsonObjectCall(ARGUMENTS_KEY, ""),
      between: ", ",
      close: `]${close}`,
    };
  },
});
