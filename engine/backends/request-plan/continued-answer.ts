import type { Continuation, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../errors.ts";

/**
 * Returns the answer so far that a request asks to go on with; undefined where its answer begins with it. Throws
 * `EngineError` REVISION_MISMATCH where another `revision` of the model began it, as its tokens may stand for other
 * text.
 */
export function continuedAnswer({ continuation }: GenerateRequest, revision: string): Continuation | undefined {
  if (!continuation || continuation.modelRevision === revision) return continuation;
  throw new EngineError("REVISION_MISMATCH", "Another revision of the model began the answer.");
}

/** Makes the error for a continuation whose tokens can be no answer to its request. */
export function notOfThisAnswer(): EngineError {
  return new EngineError("INVALID_REQUEST", "continuation.tokens: can be no answer to this request.");
}
