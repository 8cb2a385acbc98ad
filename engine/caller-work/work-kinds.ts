import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import type { ThreadReply } from "../../deploy/runtime/threads/work-threads.ts";
import { renderPrompt } from "../conversation/prompt-renderer.ts";
import { EngineError, type ErrorReason } from "../errors.ts";
import type { OutputGrammar } from "../grammar/output/output-grammar.ts";
import { type CheckedTexts, checkTexts } from "../grammar/validation/answer-check.ts";
import { grammarOf } from "./grammar-input.ts";

/** `limitMs` allows for a thread with a thirtieth of a core: budgets end a job within 200 ms of a free one. */
export const WORK = {
  grammar: { run: grammarOf, limitMs: 15_000, isWhole: ({ gaveUp }: OutputGrammar) => !gaveUp },
  render: { run: renderPrompt, limitMs: 15_000, isWhole: () => true },
  check: { run: checkTexts, limitMs: 6_000, isWhole: ({ unchecked }: CheckedTexts) => unchecked === 0 },
} as const;

export type WorkKind = keyof typeof WORK;

export type WorkInput<Kind extends WorkKind> = Parameters<(typeof WORK)[Kind]["run"]>[0];

export type WorkOutput<Kind extends WorkKind> = ReturnType<(typeof WORK)[Kind]["run"]>;

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
