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
  /** The opening mark of each call. */
  readonly callOpen: string;
  /** White space that the template writes before the first mark and behind the last; "" where it writes none. */
  readonly separator: string;
};

/**
 * Returns the rules of how calls inside an outer pair of marks are read; `newReader` makes a reader for what stands
 * behind the mark of a call. Models forget the outer opening mark, so that of a call counts as well.
 */
export function groupedCalls({ separator, ...marks }: GroupMarks, newReader: () => CallReader): CallReading {
  const open = marks.open.trim();
  const next = marks.callOpen.trim();
  return {
    openers: [...openersOf(open), next],
    opensAtBrace: false,
    next: open === "" ? "" : next,
    close: marks.close.trim(),
    separator,
    newReader: (mark) => (mark === open && open !== "" ? new LeadingMarkReader(next, newReader()) : newReader()),
  };
}
