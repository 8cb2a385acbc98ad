import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { type ErrorReason, toEngineError } from "../errors.ts";
import { WORK, type WorkKind } from "./work-kinds.ts";

/** The message that asks a thread for a piece of work: its kind, and the input of that kind. */
export type WorkMessage = { readonly kind: WorkKind; readonly input: unknown };

/** The answer of a thread: the output of the kind that was asked for, or the error that its work threw. */
export type WorkReply =
  | { readonly output: unknown }
  | {
      /** The error that the work threw, taken apart so that it can go to another thread. */
      readonly error: {
        readonly reason: ErrorReason;
        readonly message: string;
        readonly facts: Readonly<Record<string, string>>;
      };
    };

/** How far these threads stand back where processors are short, as `nice` has it: behind those that make tokens. */
const NICENESS = 5;

standBack();
parentPort?.on("message", (message: WorkMessage) => {
  parentPort?.postMessage(reply(message));
});

/** Linux has a priority for each thread, and names the one that asks; elsewhere the thread stays as it is. */
function standBack(): void {
  try {
    setPriority(Number(readlinkSync("/proc/thread-self").split("/").at(-1)), NICENESS);
  } catch {
    // What follows is right without it, too.
  }
}

function reply({ kind, input }: WorkMessage): WorkReply {
  try {
    const run = WORK[kind].run as (input: unknown) => unknown; // the input came with its kind
    return { output: run(input) };
  } catch (error) {
    const { reason, message, facts } = toEngineError(error);
    return { error: { reason, message, facts } };
  }
}
