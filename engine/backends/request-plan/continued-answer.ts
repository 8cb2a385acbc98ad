import type { Continuation, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../errors.ts";

/**
 * Returns the continuation of a request, if any. Throws `EngineError` REVISION_MISMATCH if another `revision` of the
 * model began the answer, as its tokens may represent other text.
 */
export function continuedAnswer({ continuation }: GenerateRequest, revision: string): Continuation | undefined {
  if (!continuation || continuation.modelRevision === revision) return continuation;
  throw new EngineError("REVISION_MISMATCH", "Another revision of the model began the answer.");
}

/** Creates the error for a continuation whose tokens cannot answer its request. */
export function notOfThisAnswer(): EngineError {
  return new EngineError("INVALID_REQUEST", "continuation.tokens: can be no answer to this request.");
}
