import * as z from "zod";
import { literal, sequence } from "../gbnf/gbnf.ts";
import { groupedCalls } from "./grouped-calls.ts";
import { mark, opening, spaceBefore, spaceBehind, text } from "./marks.ts";
import { type KeyEnd, type TaggedCallMarks, TaggedCallReader } from "./readers/tagged-call-reader.ts";
import { toolCallForm } from "./tool-call-form.ts";

/** The marks that a key may end with where a parameter says itself whether its value is text or JSON. */
const TYPED_KEY_ENDS: readonly KeyEnd[] = [
  { mark: '" string="true">', value: "text" },
  { mark: '" string="false">', value: "json" },
];

/**
 * The form of a call with tags that carry the name of the tool and of each parameter, as Qwen3-Coder, MiniMax and
 * DeepSeek-V3.2 write them.
 */
export const namedTags = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("named-tags"),
      open: mark.describe("The mark before all calls."),
      close: mark.describe("The mark behind all calls."),
      separator: text.describe("The white space that the template writes before `open` and behind `close`."),
      callOpen: mark.describe("The mark before a call, which its name follows."),
      callNameEnd: mark.describe("The mark behind the name of a call."),
      callClose: mark.describe("The mark behind a call."),
      parameterOpen: mark.describe("The mark before a parameter, which its key follows."),
      parameterNameEnd: mark.describe("The mark behind the key of a parameter."),
      parameterClose: mark.describe("The mark behind the value of a parameter."),
      typedParameters: z
        .boolean()
        .default(false)
        .describe('Whether a parameter says `string="true"` (text) or `string="false"` (JSON) behind its name.'),
      oneCall: z
        .boolean()
        .default(false)
        .describe("Whether every call has its own outer marks, so that several calls are several groups."),
    })
    .describe(
      "`open callOpen NAME callNameEnd parameterOpen KEY parameterNameEnd VALUE parameterClose … callClose close`",
    ),

  usable: (markers, { isKnown }) =>
    [markers.open, markers.callOpen, markers.parameterOpen].every(isKnown) ? markers : undefined,

  reading(markers, tools) {
    const untyped: KeyEnd = { mark: markers.parameterNameEnd.trim(), value: "by-schema" };
    const marks: TaggedCallMarks = {
      nameEnd: markers.callNameEnd.trim(),
      parameterOpen: markers.parameterOpen.trim(),
      keyEnds: [...(markers.typedParameters ? TYPED_KEY_ENDS : []), untyped],
      valueOpen: "",
      valueLead: spaceBehind(markers.parameterNameEnd),
      valueTail: spaceBefore(markers.parameterClose),
      valueClose: markers.parameterClose.trim(),
      callClose: markers.callClose.trim(),
      outerClose: markers.close.trim(),
    };
    return groupedCalls(markers, () => new TaggedCallReader(marks, tools.names, tools.argumentTypes));
  },

  markup(markers) {
    const { open, close, separator, callOpen, callNameEnd, callClose, oneCall } = markers;
    const { parameterOpen, parameterNameEnd, parameterClose, typedParameters } = markers;
    const keyEnd = (kind: "text" | "json") => (typedParameters ? `" string="${kind === "text"}">` : parameterNameEnd);
    return {
      ...opening(open, callOpen, callOpen),
      call: (name, args) => sequence(literal(name + callNameEnd), args, literal(callClose)),
      tags: {
        before: (key, kind) => parameterOpen + key + keyEnd(kind),
        after: parameterClose,
        tellsKind: typedParameters,
      },
      between: oneCall ? close + separator + open + callOpen : callOpen,
      close,
    };
  },
});
