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
  afterClose: text.describe("The white space that the template writes behind `close`, or a mark that may be missing."),
  anywhere: z
    .boolean()
    .optional()
    .describe(
      "Whether `open` counts behind visible text too, as the model has tokens for it, and `close` is dropped where nothing is open; without it, at the start only.",
    ),
  endedByCall: z
    .union([z.boolean(), z.literal("as-written")])
    .optional()
    .describe(
      "Whether a call ends the reasoning, too: `true`, by any mark that begins one; `as-written`, by the marks before the name of a tool as the template writes them, and the name or the brace too where that is one mark, which alone is often only mentioned; without it, all marks are only mentioned there.",
    ),
});

/** The schema of the `text` of a profile: the marks that a chat template writes around the visible text. */
export const textMarkers = z.strictObject({
  start: mark
    .optional()
    .describe("The mark before all that follows the reasoning, text or calls; without it, there is none."),
  open: mark.describe("The mark before the text, which ends a reasoning that is still open."),
  close: mark.describe("The mark behind the text."),
  end: mark.describe("The mark behind all of an answer."),
  others: z
    .array(mark)
    .optional()
    .describe("More marks that stand beside the text and are no part of it; without it, there are none."),
});

/** The marks around the visible text of a family, which are no part of it. */
export type TextMarkers = Readonly<z.output<typeof textMarkers>>;

/** Returns all marks that stand beside visible text and are no part of it. */
export function marksOfText({ start, open, close, end, others = [] }: TextMarkers): readonly string[] {
  return [...(start === undefined ? [] : [start]), open, close, end, ...others];
}

/** The marks of a family's reasoning, and the white space beside them, of which at most that much is taken off. */
export type ReasoningMarkers = Readonly<z.output<typeof reasoningMarkers>>;

/** The markup of one family of models, as data. A part that is absent does not exist in that family. */
export type OutputMarkers = {
  /** The marks of reasoning. Absent: the family does not mark any. */
  readonly reasoning?: ReasoningMarkers;
  /** The form of tool calls and its marks. Absent: the family calls no tools. */
  readonly toolCall?: ToolCallMarkers;
  /** The marks around the visible text. Absent: the text stands by itself. */
  readonly text?: TextMarkers;
};

/** How Markdown writes a fence of code: the characters it is made of, and how many of them and spaces before them. */
export const FENCE = { signs: "`~", minLength: 3, maxIndent: 3 } as const;

/**
 * Returns whether a call in a fence of code may be an example. It is none in a family that writes fences into its calls
 * itself, and in one that has marks around its texts, where a call stands between these.
 */
export function hasExamples({ toolCall, text }: OutputMarkers): boolean {
  return text === undefined && !Object.values(toolCall ?? {}).some((mark) => String(mark).includes("```"));
}
