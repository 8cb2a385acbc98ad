import * as z from "zod";
import type { ToolCallMarkers } from "../tool-calls/forms.ts";
import { mark, text } from "../tool-calls/tool-call-form.ts";

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

export const textMarkers = z.strictObject({
  start: mark
    .optional()
    .describe("The mark before all that follows the reasoning, text or calls; without it, there is none."),
  open: mark.describe("The mark before the text, which ends a reasoning that is still open."),
  close: mark.describe("The mark after the text."),
  end: mark.describe("The mark after all of an answer."),
  others: z.array(mark).optional().describe("Further marks beside the text; without it, there are none."),
});

export type TextMarkers = Readonly<z.output<typeof textMarkers>>;

export function marksOfText({ start, open, close, end, others = [] }: TextMarkers): readonly string[] {
  return [...(start === undefined ? [] : [start]), open, close, end, ...others];
}

/** The marks of a family's reasoning, and the white space beside them, which is the maximum to strip. */
export type ReasoningMarkers = Readonly<z.output<typeof reasoningMarkers>>;

export type OutputMarkers = {
  readonly reasoning?: ReasoningMarkers | undefined;
  readonly toolCall?: ToolCallMarkers | undefined;
  readonly text?: TextMarkers | undefined;
};

export const FENCE = { signs: "`~", minLength: 3, maxIndent: 3 } as const;

/** Never in families whose calls contain fences, and in those with marks around text. */
export function hasExamples({ toolCall, text }: OutputMarkers): boolean {
  return text === undefined && !Object.values(toolCall ?? {}).some((mark) => String(mark).includes("```"));
}
