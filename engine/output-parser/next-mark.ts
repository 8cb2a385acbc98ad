import { heldSuffixLength } from "../tool-calls/readers/held-suffix.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import type { ReasoningMarkers } from "./markers.ts";

/** The next thing in undecided text: so much certain text, then perhaps a mark of `length` UTF-16 units. */
export type NextMark = {
  /**
   * The kind of what begins behind the text: a call, reasoning, a mark that closes reasoning though none is open, a mark
   * around text, or nothing that is known yet.
   */
  readonly kind: "call" | "reasoning" | "reasoning-end" | "text-mark" | "none";
  /** The number of UTF-16 units of text that are certain. */
  readonly text: number;
  /**
   * The length of the mark behind that text, in UTF-16 units, with the separator before it; 0 for none and for a brace,
   * which the call takes itself.
   */
  readonly length: number;
  /** The mark of a call without the separator; "" for a brace and for all other kinds. */
  readonly mark: string;
};

/** The marks that may come next. */
export type NextMarkOptions = {
  /** The rules of how calls are found; undefined where there are none. */
  readonly call: CallReading | undefined;
  /** The marks of reasoning; undefined where there is none. */
  readonly reasoning: ReasoningMarkers | undefined;
  /** The marks around the visible text; none where it stands by itself. */
  readonly textMarks: readonly string[];
  /** Whether nothing but white space has been visible so far. */
  readonly isFresh: boolean;
};

/**
 * Finds the next opening mark in visible text. A reasoning mark, and the brace of a call without marks, count with
 * nothing but white space before them; a call's mark takes the separator before it along.
 */
export function nextMark(pending: string, { call, reasoning, textMarks, isFresh }: NextMarkOptions): NextMark {
  const lead = pending.length - pending.trimStart().length;
  let held = 0;
  if (isFresh && reasoning !== undefined) {
    const { open, close } = reasoning;
    if (pending.startsWith(open, lead)) return { kind: "reasoning", text: lead, length: open.length, mark: "" };
    if (pending.startsWith(close, lead)) return { kind: "reasoning-end", text: lead, length: close.length, mark: "" };
    const start = pending.slice(lead);
    if (open.startsWith(start) || close.startsWith(start)) held = start.length;
  }
  const around = earliest(pending, textMarks);
  const thought = reasoning?.anywhere ? earliest(pending, [reasoning.open]) : undefined;
  if (call !== undefined) {
    if (isFresh && call.opensAtBrace && pending.charAt(lead) === "{") {
      return { kind: "call", text: lead, length: 0, mark: "" };
    }
    const found = earliest(pending, call.openers);
    if (found !== undefined && ![around, thought].some((other) => other !== undefined && other.at < found.at)) {
      const separator = pending.slice(0, found.at).endsWith(call.separator) ? call.separator.length : 0;
      return { kind: "call", text: found.at - separator, length: separator + found.mark.length, mark: found.mark };
    }
    held = Math.max(held, heldSuffixLength(pending, withSeparator(call)));
  }
  if (thought !== undefined && !(around !== undefined && around.at < thought.at))
    return { kind: "reasoning", text: thought.at, length: thought.mark.length, mark: "" };
  if (around !== undefined) return { kind: "text-mark", text: around.at, length: around.mark.length, mark: "" };
  const marks = reasoning?.anywhere ? [...textMarks, reasoning.open] : textMarks;
  held = Math.max(held, heldSuffixLength(pending, marks));
  return { kind: "none", text: pending.length - held, length: 0, mark: "" };
}

/** Returns the first place in the text where one of the marks stands; undefined where none does. */
export function earliest(
  text: string,
  marks: readonly string[],
): { readonly at: number; readonly mark: string } | undefined {
  let first: { readonly at: number; readonly mark: string } | undefined;
  for (const mark of marks) {
    const at = text.indexOf(mark);
    if (at >= 0 && (first === undefined || at < first.at)) first = { at, mark };
  }
  return first;
}

/** Returns the texts with which a call can begin. */
function withSeparator({ openers, separator }: CallReading): readonly string[] {
  return [...openers, ...openers.map((opener) => separator + opener)];
}
