import { formOf, type ToolCallMarkers } from "../tool-calls/forms.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import { type WrittenMarks, writtenMarks } from "../tool-calls/written-marks.ts";
import type { ReasoningMarkers } from "./markers.ts";

/** The marks that end a reasoning, and the texts of which no beginning may go out before it is known what they become. */
type Ends = { readonly marks: readonly string[]; readonly held: readonly string[] };

/** What ends the reasoning of an output, put together once for all its pieces. */
export type ReasoningEnds = {
  /** The text with which all marks of calls begin that end it; "" where they have none in common. */
  readonly prefix: string;
  /** What is looked for in a text in which `prefix` stands. */
  readonly withPrefix: Ends;
  /** What is looked for in any other text: of the marks of calls that one only. */
  readonly withoutPrefix: Ends;
};

/** The form of a family's calls, how they are read, and the names of the tools that may be called. */
type Calls = {
  readonly toolCall: ToolCallMarkers;
  readonly reading: CallReading;
  readonly toolNames: readonly string[];
};

/**
 * Returns what ends the reasoning of an output that has these `calls`, undefined where it can have none, and `textOpen`
 * before its visible text, "" where nothing stands there.
 */
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

/** Returns the marks of calls that end a family's reasoning. */
function callEnds({ endedByCall }: ReasoningMarkers, { toolCall, reading, toolNames }: Calls): WrittenMarks {
  if (!endedByCall) return NO_CALLS;
  if (endedByCall !== "as-written") return { prefix: "", marks: reading.openers };
  const markup = formOf(toolCall).markup(toolCall);
  return markup === undefined ? NO_CALLS : writtenMarks(markup, toolNames);
}
