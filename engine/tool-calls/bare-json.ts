import * as z from "zod";
import { ARGUMENTS_KEYS, jsonObjectCall } from "./json-object-call.ts";
import { mark, openersOf, opening, text } from "./marks.ts";
import { JsonCallReader } from "./readers/json-call-reader.ts";
import { toolCallForm } from "./tool-call-form.ts";

const PASSED_KEYS = ["type", "id"];

/** Calls as an object without marks (Llama 3), at the start of the text only. */
export const bareJson = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("bare-json"),
      argumentsKey: mark.describe("The key under which the arguments stand."),
      prefix: text.describe("The optional mark before the object; empty for none."),
      separator: text.describe("The text between two calls."),
    })
    .describe('`{"name": …, argumentsKey: {…}}`, with no mark around it'),

  usable(markers, { template, isKnown }) {
    // A brace is no mark: only the template shows whether the model calls tools.
    if (!/\btools\b/.test(template)) return undefined;
    return isKnown(markers.prefix) ? markers : { ...markers, prefix: "" };
  },

  reading({ argumentsKey, prefix, separator }, { names, argumentTypes }) {
    const argumentsKeys = [...new Set([argumentsKey, ...ARGUMENTS_KEYS])];
    const options = { close: "", argumentsKeys, otherKeys: PASSED_KEYS } as const;
    return {
      openers: openersOf(prefix),
      opensAtBrace: true,
      next: separator.trim(),
      close: "",
      separator: "",
      newReader: () => new JsonCallReader(options, names, argumentTypes),
    };
  },

  markup({ argumentsKey, prefix, separator }) {
    return {
      ...opening("", "", prefix),
      opensAtBrace: true,
      ...jsonObjectCall(argumentsKey, ""),
      between: separator,
      close: "",
    };
  },
});
