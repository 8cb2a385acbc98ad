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

/** The marks that may come in the visible text of an output, put together once for all its pieces. */
export type VisibleMarks = {
  /** The rules of how calls are found; undefined where there are none. */
  readonly call: CallReading | undefined;
  /** The marks of reasoning; undefined where there is none. */
  readonly reasoning: ReasoningMarkers | undefined;
  /** The marks around the visible text; none where it stands by itself. */
  readonly around: readonly string[];
  /** The marks that begin reasoning behind visible text too. */
  readonly thoughts: readonly string[];
  /** The texts of which no beginning may go out. */
  readonly held: readonly string[];
};

/**
 * Puts the marks together that may come in visible text; `around` are those that are dropped there, and with them the
 * end of reasoning that may begin anywhere.
 */
export function visibleMarks(
  call: CallReading | undefined,
  reasoning: ReasoningMarkers | undefined,
  around: readonly string[],
): VisibleMarks {
  const { openers = [], separator = "" } = call ?? {};
  const thoughts = reasoning?.anywhere ? [reasoning.open] : [];
  const calls = [...openers, ...openers.map((opener) => separator + opener)];
  const dropped = reasoning?.anywhere ? [...around, reasoning.close] : around;
  return { call, reasoning, around: dropped, thoughts, held: [...new Set([...calls, ...dropped, ...thoughts])] };
}

/**
 * Finds the next opening mark in visible text, in which there has been nothing but white space so far where it
 * `isFresh`. A reasoning mark, and the brace of a call without marks, count with nothing but white space before them; a
 * call's mark takes the separator before it along.
 */
export function nextMark(pending: string, marks: VisibleMarks, isFresh: boolean): NextMark {
  const { call, reasoning } = marks;
  let held = 0;
  if (isFresh) {
    const lead = pending.length - pending.trimStart().length;
    if (reasoning !== undefined) {
      const { open, close } = reasoning;
      if (pending.startsWith(open, lead)) return { kind: "reasoning", text: lead, length: open.length, mark: "" };
      if (pending.startsWith(close, lead)) return { kind: "reasoning-end", text: lead, length: close.length, mark: "" };
      const start = pending.slice(lead);
      if (open.startsWith(start) || close.startsWith(start)) held = start.length;
    }
    if (call?.opensAtBrace && pending.charAt(lead) === "{") return { kind: "call", text: lead, length: 0, mark: "" };
  }
  const around = earliest(pending, marks.around);
  const thought = earliest(pending, marks.thoughts);
  const found = call && earliest(pending, call.openers);
  const others = Math.min(around?.at ?? pending.length, thought?.at ?? pending.length);
  if (call !== undefined && found !== undefined && found.at <= others) {
    const separator = pending.slice(0, found.at).endsWith(call.separator) ? call.separator.length : 0;
    return { kind: "call", text: found.at - separator, length: separator + found.mark.length, mark: found.mark };
  }
  if (thought !== undefined && thought.at === others)
    return { kind: "reasoning", text: thought.at, length: thought.mark.length, mark: "" };
  if (around !== undefined) return { kind: "text-mark", text: around.at, length: around.mark.length, mark: "" };
  held = Math.max(held, heldSuffixLength(pending, marks.held));
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
