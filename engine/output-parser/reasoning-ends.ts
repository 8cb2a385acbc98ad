import { formOf, type ToolCallMarkers } from "../tool-calls/forms.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import { type WrittenMarks, writtenMarks } from "../tool-calls/written-marks.ts";
import type { ReasoningMarkers } from "./markers.ts";

type Ends = { readonly marks: readonly string[]; readonly held: readonly string[] };

export type ReasoningEnds = {
  /** The common prefix of all call marks that end reasoning; "" if there is none. */
  readonly prefix: string;
  /** The ends in a text that contains `prefix`. */
  readonly withPrefix: Ends;
  readonly withoutPrefix: Ends;
};

type Calls = {
  readonly toolCall: ToolCallMarkers;
  readonly reading: CallReading;
  readonly toolNames: readonly string[];
};

/** `calls` is undefined for none, and `textOpen` is "" for no mark before the visible text. */
export function reasoningEnds(reasoning: ReasoningMarkers, calls: Calls | undefined, textOpen: string): ReasoningEnds {
  const { prefix, marks } = calls === undefined ? NO_CALLS : callEnds(reasoning, calls);
  const separator = calls?.reading.separator ?? "";
  const { close, beforeClose } = reasoning;
  const said = textOpen === "" ? [] : [textOpen];
  const endsOf = (begun: readonly string[]): Ends => ({
    marks: [close, ...said, ...begun],
    held: [...new Set([close, beforeClose + close, ...said, ...begun, ...begun.map((mark) => separator + mark)])],
  });
  return { prefix, withPrefix: endsOf(marks), withoutPrefix: endsOf([prefix]) };
}

const NO_CALLS: WrittenMarks = { prefix: "", marks: [] };

function callEnds({ endedByCall }: ReasoningMarkers, { toolCall, reading, toolNames }: Calls): WrittenMarks {
  if (!endedByCall) return NO_CALLS;
  if (endedByCall !== "as-written") return { prefix: "", marks: reading.openers };
  const markup = formOf(toolCall).markup(toolCall);
  return markup === undefined ? NO_CALLS : writtenMarks(markup, toolNames);
}
