import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import type { ThreadReply } from "../../deploy/runtime/threads/grown-heap.ts";
import { EngineError, type ErrorReason } from "../errors.ts";
import { WORK, type WorkKind } from "./work-kinds.ts";

/** The message that asks a thread for a piece of work: its kind, and the input of that kind. */
export type WorkMessage = { readonly kind: WorkKind; readonly input: unknown };

/** The answer of a thread: the output of the kind that was asked for, or why there is none. */
export type WorkReply = ThreadReply &
  (
    | { readonly output: unknown }
    | {
        /** The error that the work threw, taken apart so that it can go to another thread. */
        readonly error: {
          readonly reason: ErrorReason;
          readonly message: string;
          readonly facts: Readonly<Record<string, string>>;
        };
      }
    | {
        /** The facts about a fault of this program, without its message, which may quote what a caller sent. */
        readonly fault: CrashReport;
      }
  );

/** Does a piece of work. It never throws. */
export function replyTo({ kind, input }: WorkMessage): WorkReply {
  try {
    const run = WORK[kind].run as (input: unknown) => unknown; // the input came with its kind
    return { output: run(input) };
  } catch (error) {
    if (!(error instanceof EngineError)) return { fault: crashReport(error) };
    const { reason, message, facts } = error;
    return { error: { reason, message, facts } };
  }
}
