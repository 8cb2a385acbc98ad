import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import type { ThreadReply } from "../../deploy/runtime/threads/grown-heap.ts";
import { EngineError, type ErrorReason } from "../errors.ts";
import { WORK, type WorkKind } from "./work-kinds.ts";

export type WorkMessage = { readonly kind: WorkKind; readonly input: unknown };

export type WorkReply = ThreadReply &
  (
    | { readonly output: unknown }
    | {
        readonly error: {
          readonly reason: ErrorReason;
          readonly message: string;
          readonly facts: Readonly<Record<string, string>>;
        };
      }
    | {
        /** A fault of this program, without its message, which may quote caller input. */
        readonly fault: CrashReport;
      }
  );

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
