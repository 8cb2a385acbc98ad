import * as z from "zod";
import type { ToolCallMarkers } from "../tool-calls/forms.ts";
import { mark, text } from "../tool-calls/marks.ts";

/**
 * The schema of the `reasoning` of a profile: how a chat template marks reasoning, and the white space that it writes
 * beside the marks.
 */
export const reasoningMarkers = z.strictObject({
  open: mark.describe("The mark before the reasoning."),
  close: mark.describe("The mark behind the reasoning."),
  afterOpen: text.describe("The white space that the template writes behind `open`."),
  beforeClose: text.describe("The white space that the template writes before `close`."),
  afterClose: text.describe("The white space that the template writes behind `close`."),
  endedByCall: z
    .boolean()
    .optional()
    .describe("Whether the mark of a call ends the reasoning, too; without it, such a mark is only mentioned there."),
});

/** The marks of a family's reasoning, and the white space beside them, of which at most that much is taken off. */
export type ReasoningMarkers = Readonly<z.output<typeof reasoningMarkers>>;

/** The markup of one family of models, as data. A part that is absent does not exist in that family. */
export type OutputMarkers = {
  /** The marks of reasoning. Absent: the family does not mark any. */
  readonly reasoning?: ReasoningMarkers;
  /** The form of tool calls and its marks. Absent: the family calls no tools. */
  readonly toolCall?: ToolCallMarkers;
};
