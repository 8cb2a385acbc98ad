import { openersOf } from "./marks.ts";
import type { CallReader } from "./readers/call-reader.ts";
import { LeadingMarkReader } from "./readers/leading-mark-reader.ts";
import type { CallReading } from "./tool-call-form.ts";

export type GroupMarks = {
  readonly open: string;
  readonly close: string;
  readonly otherOpens?: readonly string[];
  readonly otherCloses?: readonly string[];
  readonly dropsStrays?: boolean;
  readonly callOpen: string;
  readonly otherCallOpens?: readonly string[];
  readonly separator: string;
};

/** Models omit the outer opening mark, so the mark of a call counts as well. */
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
