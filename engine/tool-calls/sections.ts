import * as z from "zod";
import { charsOf, EMPTY, type Gbnf, literal, repeat, sequence } from "../gbnf/gbnf.ts";
import { groupedCalls } from "./grouped-calls.ts";
import { mark, opening, text } from "./marks.ts";
import { SectionCallReader } from "./readers/section-call-reader.ts";
import { toolCallForm } from "./tool-call-form.ts";

/** Calls as a name and JSON arguments, each between marks inside an outer pair (DeepSeek, Kimi). */
export const sections = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("sections"),
      open: text.describe("The mark before all calls; empty if none is written."),
      close: text.describe("The mark after all calls; empty if none is written."),
      otherOpens: z
        .array(mark)
        .default([])
        .describe("The marks that models write instead of `open` by mistake; they are parsed, but never written."),
      otherCloses: z
        .array(mark)
        .default([])
        .describe("The marks that models write instead of `close` by mistake; they are parsed, but never written."),
      callOpen: mark.describe("The mark before a call."),
      otherCallOpens: z
        .array(mark)
        .default([])
        .describe("Further marks that begin a call; they are parsed, but never written."),
      namePrefix: text.describe("The text before the name, which a model may omit; empty if none is written."),
      nameTail: text.describe(
        "The text that the template writes between the name and `nameEnd`; if it is not empty, any text may stand there.",
      ),
      nameEnd: mark.describe("The mark between the name and the arguments."),
      callClose: text.describe("The mark after a call; empty if none is written."),
      nameIsId: z
        .boolean()
        .default(false)
        .describe("Whether the name is written as `functions.name:index`, which is then the id of the call."),
      idOpen: text.describe("The text between the name and an id; empty if no id is written."),
    })
    .describe("`open callOpen namePrefix NAME nameTail nameEnd {…} callClose … close`"),

  // A template may write the words of the mark in another order.
  usable: (markers, { isKnown }) =>
    [markers.open, ...markers.callOpen.split(" "), markers.nameEnd].every(isKnown) ? markers : undefined,

  reading: (markers, { names, argumentTypes }) =>
    groupedCalls(
      { ...markers, separator: "", dropsStrays: true },
      () => new SectionCallReader(markers, names, argumentTypes),
    ),

  markup({ open, otherOpens, otherCallOpens, callOpen, namePrefix, nameTail, nameEnd, callClose, nameIsId, close }) {
    const index = nameIsId ? sequence(literal(":"), repeat(charsOf("09"), 1, 4)) : EMPTY;
    const begins = (name: string) => (nameIsId ? `functions.${name}` : namePrefix + name);
    const rest = (_: string, args: Gbnf) => sequence(index, literal(nameTail + nameEnd), args, literal(callClose));
    return {
      ...(open === "" ? opening(callOpen, "") : opening(open, callOpen, callOpen)),
      otherOpens,
      begins,
      rest,
      ...(otherCallOpens.length > 0
        ? {
            otherCalls: otherCallOpens.map((mark) => ({
              mark,
              call: (name: string, args: Gbnf) =>
                sequence(literal(mark.endsWith(namePrefix) ? name : begins(name)), rest(name, args)),
            })),
          }
        : {}),
      between: callOpen,
      close,
    };
  },
});
