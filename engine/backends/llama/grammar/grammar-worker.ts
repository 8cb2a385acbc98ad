import { parentPort } from "node:worker_threads";
import { type ErrorReason, toEngineError } from "../../../errors.ts";
import { type GrammarWish, grammarOf } from "./grammar-wish.ts";

/** What the thread answers to a wish. */
export type GrammarReply =
  | { readonly grammar: string | undefined }
  | {
      readonly error: {
        readonly reason: ErrorReason;
        readonly message: string;
        readonly facts: Readonly<Record<string, string>>;
      };
    };

parentPort?.on("message", (wish: GrammarWish) => {
  parentPort?.postMessage(reply(wish));
});

function reply(wish: GrammarWish): GrammarReply {
  try {
    return { grammar: grammarOf(wish) };
  } catch (error) {
    const { reason, message, facts } = toEngineError(error);
    return { error: { reason, message, facts } };
  }
}
