import { openersOf } from "./marks.ts";
import type { CallReader } from "./readers/call-reader.ts";
import { LeadingMarkReader } from "./readers/leading-mark-reader.ts";
import type { CallReading } from "./tool-call-form.ts";

export type GroupMarks = {
  /** The outer opening mark; "" for none. */
  readonly open: string;
  /** The outer closing mark; "" for none. */
  readonly close: string;
  /** Marks that models write instead of `open`. Default: none. */
  readonly otherOpens?: readonly string[];
  /** Marks that models write instead of `close`. Default: none. */
  readonly otherCloses?: readonly string[];
  /** Whether a mark of the group without a call is dropped. Default: false. */
  readonly dropsStrays?: boolean;
  readonly callOpen: string;
  /** Further marks that begin a call, equivalent to `callOpen`. Default: none. */
  readonly otherCallOpens?: readonly string[];
  /** White space that the template writes before the first and after the last mark; "" for none. */
  readonly separator: string;
};

/**
 * Returns the reading rules for calls inside an outer pair of marks; `newReader` creates a reader for the text after
 * the mark of a call. Models omit the outer opening mark, so the mark of a call counts as well.
 */
export function groupedCalls(
  { separator, otherOpens = [], otherCloses = [], otherCallOpens = [], dropsStrays = false, ...marks }: GroupMarks,
  newReader: () => CallReader,
): CallReading {
  const open = marks.open.trim();
  const outer = openersOf(open, ...otherOpens);
  const next = marks.callOpen.trim();
  return {
    openers: [...outer, next, ...openersOf(...otherCallOpens)],
    opensAtBrace: false,
    next: open === "" ? "" : next,
    close: marks.close.trim(),
    otherCloses,
    strays: dropsStrays ? [...outer, ...openersOf(marks.close, ...otherCloses)] : [],
    separator,
    newReader: (mark) => (outer.includes(mark) ? new LeadingMarkReader(next, newReader()) : newReader()),
  };
}
