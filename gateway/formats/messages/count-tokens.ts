import { type CountFormat, countOf } from "../format.ts";
import { checkCountTokensBody } from "./canonical-request.ts";
import { messages } from "./request.ts";

/** Token counts of Format B, `POST /v1/messages/count_tokens`. */
export const countTokens: CountFormat = {
  name: messages.name,
  fields: messages.fields,
  prepare: (body, context) => countOf(checkCountTokensBody(body, context)),
  reply: (inputTokens) => ({ input_tokens: inputTokens }),
};
