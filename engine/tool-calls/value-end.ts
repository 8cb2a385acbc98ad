import { CallDepth } from "./call-depth.ts";
import { isSpace } from "./json-scanner.ts";
import { MarkSet } from "./mark-set.ts";
import { allOf, isOf, type Mark } from "./mark-spellings.ts";

/** The marks that may end a value, or follow the one that does. */
export type ValueMarks = {
  readonly callOpen: Mark;
  readonly outerOpen: Mark;
  readonly parameterOpen: Mark;
  /** The mark before a value, if it is another than the one before its parameter. */
  readonly valueOpen: string;
  readonly valueTail: string;
  readonly valueClose: (key: string) => Mark;
  readonly callClose: Mark;
  readonly outerClose: Mark;
};

type Key = { readonly name: string; readonly end: number };

type Depths = Readonly<Record<"calls" | "tags" | "plain", CallDepth>>;

/** The marks that count in the value of a key. */
export class ValueSets {
  readonly valueClose: MarkSet;
  readonly ends: MarkSet;
  readonly followers: MarkSet;
  readonly closers: MarkSet;
  readonly signed: ReadonlySet<string>;
  readonly opens: MarkSet;
  readonly marks: ValueMarks;
  readonly #depths: Readonly<Record<"calls" | "tags" | "plain", readonly [opens: MarkSet, marks: MarkSet]>>;

  constructor(marks: ValueMarks, key: string) {
    const { callOpen, outerOpen, parameterOpen, valueOpen, callClose, outerClose } = marks;
    const valueClose = marks.valueClose(key);
    const all = [callOpen, outerOpen, parameterOpen, valueClose, callClose, outerClose];
    this.marks = marks;
    this.valueClose = allOf(valueClose);
    this.ends = allOf(valueClose, callClose, outerClose, { signed: parameterOpen.signed, plain: [] });
    this.followers = allOf(...all);
    this.closers = allOf(callClose, outerClose, valueClose);
    this.opens = allOf(callOpen, outerOpen);
    this.signed = new Set(all.flatMap(({ signed }) => signed));
    const tag = valueOpen === "" ? parameterOpen.signed : [valueOpen];
    const opened = [`<${key}>`, ...callOpen.plain, ...parameterOpen.plain];
    this.#depths = {
      calls: depthOf(callOpen.signed, callClose.signed),
      tags: depthOf(tag, valueClose.signed),
      plain: depthOf(opened, [...valueClose.plain, ...callClose.plain]),
    };
  }

  /** Counters of calls, of parameters, and of both by marks without the family's sign. */
  newDepths(): Depths {
    const { calls, tags, plain } = this.#depths;
    return { calls: new CallDepth(...calls), tags: new CallDepth(...tags), plain: new CallDepth(...plain) };
  }
}

const depthOf = (opens: readonly string[], closes: readonly string[]) =>
  [new MarkSet(opens), new MarkSet(opens, closes)] as const;

export type ValueEndOptions = {
  readonly sets: ValueSets;
  /** Whether the mark before the value, or that of its call, lacks the family's sign, so that its end may as well. */
  readonly isPlain: boolean;
  readonly isMissing: (key: string) => boolean;
  /** The key of a parameter whose mark ends at `at`; `"partly"` if more text is needed. */
  readonly keyAt: (text: string, at: number) => Key | "partly" | undefined;
};

/** How much of a text is the value's, up to `to`; with `next`, the value ends and its call goes on there. */
type Look = { readonly to: number; readonly next?: number; readonly isOver: boolean };

type Verdict = "yes" | "no" | "unknown";

/** UTF-16 units of white space behind a closing mark within which another mark must follow for it to count. */
const MAX_SPACE = 64;

/**
 * Finds where a value ends. A closing mark counts where another mark of the call follows it: what a value contains is
 * followed by the rest of the value. One without the family's sign counts only if the marks behind it lead to one that
 * has it, or to the end of the output, and if it closes nothing that the value opened.
 */
export class ValueEnd {
  readonly #options: ValueEndOptions;
  readonly #sets: ValueSets;
  readonly #depths: Depths;

  constructor(options: ValueEndOptions) {
    this.#options = options;
    this.#sets = options.sets;
    this.#depths = options.sets.newDepths();
  }

  /** Counts a text that belongs to the value. */
  push(text: string): void {
    const { calls, tags, plain } = this.#depths;
    calls.push(text);
    tags.push(text);
    plain.push(text);
  }

  /** `isOver` is false if `to` was decided without the text behind it. */
  look(text: string, from: number): Look {
    const found = this.#sets.ends.find(text, from);
    if (found === undefined) {
      const held = this.#sets.ends.held(text.slice(from));
      return { to: this.#withoutTail(text, from, text.length - held), isOver: true };
    }
    const verdict = this.#verdict(text, from, found);
    if (verdict === "no") return { to: found.at + found.mark.length, isOver: false };
    const to = this.#withoutTail(text, from, found.at);
    if (verdict === "unknown") return { to, isOver: true };
    return {
      to,
      next: this.#sets.valueClose.has(found.mark) ? this.#behindClose(text, found) : found.at,
      isOver: true,
    };
  }

  /** Where the value ends if the output does behind `text`, and whether its call is whole then. */
  atEnd(text: string): { readonly to: number; readonly isEnded: boolean; readonly isWhole: boolean } {
    for (
      let found = this.#sets.ends.find(text);
      found;
      found = this.#sets.ends.find(text, found.at + found.mark.length)
    ) {
      const isInside = !this.#isSigned(found.mark) && this.#depths.plain.behind(text.slice(0, found.at)) > 0;
      const rest = isInside ? undefined : this.#closersOnly(text, found.at);
      if (rest !== undefined) return { to: this.#withoutTail(text, 0, found.at), isEnded: true, isWhole: rest.isWhole };
    }
    return { to: this.#withoutTail(text, 0, text.length - this.#sets.ends.held(text)), isEnded: false, isWhole: false };
  }

  /** Undefined if anything but closing marks follows, the last of which may be incomplete. */
  #closersOnly(text: string, from: number): { readonly isWhole: boolean } | undefined {
    const { callClose, outerClose } = this.#sets.marks;
    let isWhole = false;
    for (let at = from; ; ) {
      at = behindSpace(text, at);
      const found = this.#sets.closers.at(text, at);
      if (at === text.length || found === "partly") return { isWhole };
      if (found === undefined) return undefined;
      isWhole ||= isOf(found.mark, callClose, outerClose);
      at += found.mark.length;
    }
  }

  #verdict(text: string, from: number, { at, mark }: { readonly at: number; readonly mark: string }): Verdict {
    const { parameterOpen, outerClose } = this.#sets.marks;
    const before = text.slice(from, at);
    if (parameterOpen.signed.includes(mark)) return this.#beginsParameter(text, at + mark.length, before);
    const isSigned = this.#isSigned(mark);
    if (!isSigned && this.#depths.plain.behind(before) > 0) return "no";
    if (!this.#sets.valueClose.has(mark)) {
      // The value's own closing mark is left out.
      const isOutside = this.#depths.calls.behind(before) === 0;
      return isOutside ? this.#leadsOn(text, at + mark.length, isOf(mark, outerClose) ? "nothing" : "calls") : "no";
    }
    if (!isSigned) return this.#leadsOn(text, at + mark.length, "parameters");
    const isOutside = this.#depths.tags.behind(before) === 0;
    const behind = isOutside ? this.#behindClose(text, { at, mark }) : at + mark.length;
    const next = behindSpace(text, behind);
    const found = this.#sets.followers.at(text, next);
    if (found === undefined || found === "partly") return found === undefined ? "no" : "unknown";
    if (this.#sets.valueClose.has(found.mark)) return "no";
    if (this.#depths.calls.behind(before) === 0) return "yes";
    return this.#endsOuterValue(text, next, found.mark);
  }

  /** A parameter that the value does not contain begins: the value's closing mark was omitted. */
  #beginsParameter(text: string, at: number, before: string): Verdict {
    const key = this.#options.keyAt(text, at);
    const close = this.#sets.valueClose.find(text, at);
    if (key === undefined || (close !== undefined && (key === "partly" || close.at < key.end))) return "no";
    if (key === "partly") return "unknown";
    return this.#options.isMissing(key.name) && this.#depths.calls.behind(before) === 0 ? "yes" : "no";
  }

  /** Whether only closing marks stand between a mark and one that the value cannot contain. */
  #leadsOn(text: string, from: number, to: "parameters" | "calls" | "nothing"): Verdict {
    const { parameterOpen } = this.#sets.marks;
    for (let at = from; ; ) {
      at = behindSpace(text, at);
      const found = this.#sets.followers.at(text, at);
      if (at === text.length || found === "partly") return "unknown";
      if (found === undefined || to === "nothing") return "no";
      const { mark } = found;
      const isCall = this.#sets.opens.has(mark);
      const isParameter = isOf(mark, parameterOpen);
      const isValueClose = this.#sets.valueClose.has(mark);
      if (to === "calls" && (isParameter || isValueClose)) return "no";
      if (isValueClose && this.#isSigned(mark)) return "no";
      if (isCall || (!isValueClose && this.#isSigned(mark))) return "yes";
      if (isParameter) return this.#beginsParameter(text, at + mark.length, "");
      at += mark.length;
    }
  }

  /** Whether a closing mark followed by `mark` ends a value that contains the mark of a call. */
  #endsOuterValue(text: string, from: number, mark: string): Verdict {
    const { opens, closers, valueClose } = this.#sets;
    if (isOf(mark, this.#sets.marks.parameterOpen)) {
      const key = this.#options.keyAt(text, from + mark.length);
      if (key === "partly") return "unknown";
      return key !== undefined && this.#options.isMissing(key.name) ? "yes" : "no";
    }
    for (let at = from; ; ) {
      at = behindSpace(text, at);
      const found = opens.at(text, at) ?? closers.at(text, at);
      if (found === "partly") return "unknown";
      if (found === undefined || valueClose.has(found.mark)) return "no";
      if (opens.has(found.mark)) return "yes";
      at += found.mark.length;
    }
  }

  /** Returns the position after a closing mark, and after a second one, as some models write it twice. */
  #behindClose(text: string, { at, mark }: { readonly at: number; readonly mark: string }): number {
    const behind = at + mark.length;
    const second = behindSpace(text, behind);
    const found = this.#sets.valueClose.at(text, second);
    return found === undefined || found === "partly" ? behind : second + found.mark.length;
  }

  #isSigned(mark: string): boolean {
    return this.#options.isPlain || this.#sets.signed.has(mark);
  }

  #withoutTail(text: string, from: number, at: number): number {
    const { valueTail } = this.#sets.marks;
    return text.slice(from, at).endsWith(valueTail) ? at - valueTail.length : at;
  }
}

function behindSpace(text: string, from: number): number {
  let end = from;
  while (end - from < MAX_SPACE && isSpace(text.charAt(end))) end += 1;
  return end;
}
