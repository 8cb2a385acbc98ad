import { parentPort } from "node:worker_threads";
import { type ErrorReason, toEngineError } from "../../../errors.ts";
import { type GrammarInput, grammarOf } from "./grammar-input.ts";

/** What the thread answers: the grammar of an input, or why there is none. */
export type GrammarReply =
  | { readonly grammar: string | undefined }
  | {
      readonly error: {
        readonly reason: ErrorReason;
        readonly message: string;
        readonly facts: Readonly<Record<string, string>>;
      };
    };

parentPort?.on("message", (input: GrammarInput) => {
  parentPort?.postMessage(reply(input));
});

function reply(input: GrammarInput): GrammarReply {
  try {
    return { grammar: grammarOf(input) };
  } catch (error) {
    const { reason, message, facts } = toEngineError(error);
    return { error: { reason, message, facts } };
  }
}
