import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Principal } from "../../keys/principal.ts";

type Output = Pick<GenerateRequest, "maxOutputTokens" | "reasoning">;

/**
 * The request with no more room for its answer than its key allows; the answer then ends for length. No error, as with the
 * room that is left in the window: agents always ask for tens of thousands of tokens and could not use the key at all.
 */
export function withinOutputLimit<T extends Output>(request: T, { limits }: Principal): T {
  const { maxOutputTokens: most } = limits;
  if (most === undefined || (request.maxOutputTokens ?? Number.POSITIVE_INFINITY) <= most) return request;
  const { reasoning } = request;
  if (reasoning?.budgetTokens === undefined) return { ...request, maxOutputTokens: most };
  // Some of the answer must be left to be seen.
  const budgetTokens = Math.max(1, Math.min(reasoning.budgetTokens, most - 1));
  return { ...request, maxOutputTokens: most, reasoning: { ...reasoning, budgetTokens } };
}
