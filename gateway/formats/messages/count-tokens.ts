import type { CountTokensRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { PrepareContext } from "../format.ts";
import { checkCountTokensBody } from "./canonical-request.ts";

/**
 * A checked count. Its prompt is that of the message that the same body would ask for, so that the count equals the
 * input tokens of that message.
 */
export type PreparedCount = {
  /** The catalog id of the model. */
  readonly model: string;
  /** The canonical form of the count, without whom it is for. */
  readonly request: Omit<CountTokensRequest, "tenant">;
};

/** Checks the body of `POST /v1/messages/count_tokens`. Throws `ApiError` only. */
export function prepareCountTokens(body: unknown, context: PrepareContext): PreparedCount {
  const { model, messages, tools, toolChoice, reasoning } = checkCountTokensBody(body, context).request;
  return { model, request: { model, messages, tools, toolChoice, reasoning } };
}
