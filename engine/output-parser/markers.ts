import * as z from "zod";
import type { ToolCallMarkers } from "../tool-calls/forms.ts";
import { mark, text } from "../tool-calls/marks.ts";

/**
 * The schema of a profile's `reasoning`: the marks of reasoning in the chat template, and the white space beside them.
 */
export const reasoningMarkers = z.strictObject({
  open: mark.describe("The mark before the reasoning."),
  close: mark.describe("The mark after the reasoning."),
  afterOpen: text.describe("The white space that the template writes after `open`."),
  beforeClose: text.describe("The white space that the template writes before `close`."),
  afterClose: text.describe("The white space that the template writes after `close`, or an optional mark."),
  anywhere: z
    .boolean()
    .optional()
    .describe(
      "Whether `open` counts after visible text too, because the model has tokens for it, and a redundant `close` is dropped; without it, at the start only.",
    ),
  endedByCall: z
    .union([z.boolean(), z.literal("as-written")])
    .optional()
    .describe(
      "Whether a call ends the reasoning, too: `true` for any mark that begins one; `as-written` for the marks before the name of a tool as the template writes them, with the name or brace if that is a single mark, which models often only mention; without it, marks in reasoning are only mentioned.",
    ),
});

/** The schema of a profile's `text`: the marks around the visible text in the chat template. */
export const textMarkers = z.strictObject({
  start: mark
    .optional()
    .describe("The mark before all that follows the reasoning, text or calls; without it, there is none."),
  open: mark.describe("The mark before the text, which ends a reasoning that is still open."),
  close: mark.describe("The mark after the text."),
  end: mark.describe("The mark after all of an answer."),
  others: z.array(mark).optional().describe("Further marks beside the text; without it, there are none."),
});

/** The marks around the visible text of a family; they are not part of it. */
export type TextMarkers = Readonly<z.output<typeof textMarkers>>;

export function marksOfText({ start, open, close, end, others = [] }: TextMarkers): readonly string[] {
  return [...(start === undefined ? [] : [start]), open, close, end, ...others];
}

/** The marks of a family's reasoning, and the white space beside them, which is the maximum to strip. */
export type ReasoningMarkers = Readonly<z.output<typeof reasoningMarkers>>;

/** The markup of a model family. An absent part does not exist in that family. */
export type OutputMarkers = {
  /** The marks of reasoning. Absent: none. */
  readonly reasoning?: ReasoningMarkers;
  /** The form of tool calls and its marks. Absent: no tool calls. */
  readonly toolCall?: ToolCallMarkers;
  /** The marks around the visible text. Absent: none. */
  readonly text?: TextMarkers;
};

/** Markdown code fences: the fence characters, the minimum length, and the maximum indentation. */
export const FENCE = { signs: "`~", minLength: 3, maxIndent: 3 } as const;

/**
 * Returns whether a call in a code fence may be an example. It never is in families whose calls contain fences, and in
 * those with marks around text, where calls stand between the marks.
 */
export function hasExamples({ toolCall, text }: OutputMarkers): boolean {
  return text === undefined && !Object.values(toolCall ?? {}).some((mark) => String(mark).includes("```"));
}
