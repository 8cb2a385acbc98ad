import { openersOf } from "./marks.ts";
import type { CallReader } from "./readers/call-reader.ts";
import { LeadingMarkReader } from "./readers/leading-mark-reader.ts";
import type { CallReading } from "./tool-call-form.ts";

/** The marks around calls that stand together inside an outer pair. */
export type GroupMarks = {
  /** The outer opening mark; "" where a template writes none. */
  readonly open: string;
  /** The outer closing mark; "" where a template writes none. */
  readonly close: string;
  /** Marks that models write in the place of `open` by mistake. Default: none. */
  readonly otherOpens?: readonly string[];
  /** Marks that models write in the place of `close` by mistake. Default: none. */
  readonly otherCloses?: readonly string[];
  /** Whether a mark of the group is dropped where no call belongs to it. Default: false. */
  readonly dropsStrays?: boolean;
  /** The opening mark of each call. */
  readonly callOpen: string;
  /** Marks with which a call begins as well, and each counts as `callOpen` does. Default: none. */
  readonly otherCallOpens?: readonly string[];
  /** White space that the template writes before the first mark and behind the last; "" where it writes none. */
  readonly separator: string;
};

/**
 * Returns the rules of how calls inside an outer pair of marks are read; `newReader` makes a reader for what stands
 * behind the mark of a call. Models forget the outer opening mark, so that of a call counts as well.
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
