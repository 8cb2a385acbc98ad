import { type CountFormat, countOf } from "../format.ts";
import { responses } from "./request.ts";

/** Token counts of the Responses format, `POST /v1/responses/input_tokens`. The body is that of the response. */
export const inputTokens: CountFormat = {
  name: responses.name,
  fields: responses.fields,
  prepare: (body, context) => countOf(responses.prepare(body, context)),
  reply: (tokens) => ({ object: "response.input_tokens", input_tokens: tokens }),
};
