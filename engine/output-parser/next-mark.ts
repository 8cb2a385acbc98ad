import { heldSuffixLength } from "../tool-calls/call-reader.ts";
import { formOf, type ToolCallMarkers } from "../tool-calls/forms.ts";
import { MarkSet } from "../tool-calls/mark-set.ts";
import { type CallReading, type WrittenMarks, writtenMarks } from "../tool-calls/tool-call-form.ts";
import type { ReasoningMarkers } from "./markers.ts";

/** The next element of undecided text: `text` certain units, then possibly a mark of `length` UTF-16 units. */
type NextMark = {
  readonly kind: "call" | "reasoning" | "reasoning-end" | "text-mark" | "none";
  readonly text: number;
  /** In UTF-16 units with the separator before it; 0 for none and for a brace, which the call reader consumes. */
  readonly length: number;
  /** The mark of a call or around texts. */
  readonly mark: string;
};

export type VisibleMarks = {
  readonly call: CallReading | undefined;
  readonly reasoning: ReasoningMarkers | undefined;
  readonly openers: MarkSet;
  readonly around: MarkSet;
  readonly looseClosers: MarkSet;
  readonly thoughts: MarkSet;
};

/** `around` are dropped in visible text, and so is the end of reasoning that may begin anywhere. */
export function visibleMarks(
  call: CallReading | undefined,
  reasoning: ReasoningMarkers | undefined,
  around: readonly string[],
): VisibleMarks {
  return {
    call,
    reasoning,
    openers: MarkSet.of(call?.openers ?? NONE),
    around: new MarkSet(around, reasoning?.anywhere ? [reasoning.close] : []),
    looseClosers: MarkSet.of(call?.looseClosers ?? NONE),
    thoughts: new MarkSet(reasoning?.anywhere ? [reasoning.open] : []),
  };
}

const NONE: readonly string[] = [];

/** A reasoning mark and the brace of a call without marks count only after white space (`isFresh`). */
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
  const mark = marks.around.find(pending);
  const closer = marks.looseClosers.find(pending);
  const around = mark === undefined || (closer !== undefined && closer.at < mark.at) ? closer : mark;
  const thought = marks.thoughts.find(pending);
  const found = marks.openers.find(pending);
  const others = Math.min(around?.at ?? pending.length, thought?.at ?? pending.length);
  if (call !== undefined && found !== undefined && found.at <= others) {
    const separator = pending.slice(0, found.at).endsWith(call.separator) ? call.separator.length : 0;
    return { kind: "call", text: found.at - separator, length: separator + found.mark.length, mark: found.mark };
  }
  if (thought !== undefined && thought.at === others)
    return { kind: "reasoning", text: thought.at, length: thought.mark.length, mark: "" };
  if (around !== undefined)
    return { kind: "text-mark", text: around.at, length: around.mark.length, mark: around.mark };
  held = Math.max(held, marks.around.held(pending), marks.looseClosers.held(pending), marks.thoughts.held(pending));
  held = Math.max(held, heldOpener(pending, marks.openers, call?.separator ?? ""));
  return { kind: "none", text: pending.length - held, length: 0, mark: "" };
}

/** The length of what may become the mark of a call, with the separator before it. */
function heldOpener(text: string, openers: MarkSet, separator: string): number {
  const held = openers.held(text);
  if (separator === "") return held;
  if (held > 0) return text.slice(0, text.length - held).endsWith(separator) ? held + separator.length : held;
  return text.endsWith(separator) ? separator.length : heldSuffixLength(text, [separator]);
}

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

export class PendingText {
  text = "";
  received = 0;

  get offset(): number {
    return this.received - this.text.length;
  }

  receive(text: string): void {
    this.received += text.length;
    this.text += text;
  }

  take(length: number): string {
    const taken = this.text.slice(0, length);
    this.text = this.text.slice(length);
    return taken;
  }

  takeAll(): string {
    return this.take(this.text.length);
  }

  putBack(text: string): void {
    this.text = text + this.text;
  }
}
