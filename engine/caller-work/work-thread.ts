import { parentPort } from "node:worker_threads";
import { type ErrorReason, toEngineError } from "../errors.ts";
import { WORK, type WorkKind } from "./work-kinds.ts";

/** What a thread is asked to do. */
export type WorkMessage = { readonly kind: WorkKind; readonly input: unknown };

/** What a thread answers: the result, or why there is none. */
export type WorkReply =
  | { readonly output: unknown }
  | {
      readonly error: {
        readonly reason: ErrorReason;
        readonly message: string;
        readonly facts: Readonly<Record<string, string>>;
      };
    };

parentPort?.on("message", (message: WorkMessage) => {
  parentPort?.postMessage(reply(message));
});

function reply({ kind, input }: WorkMessage): WorkReply {
  try {
    const run = WORK[kind].run as (input: unknown) => unknown; // the input came with its kind
    return { output: run(input) };
  } catch (error) {
    const { reason, message, facts } = toEngineError(error);
    return { error: { reason, message, facts } };
  }
}
