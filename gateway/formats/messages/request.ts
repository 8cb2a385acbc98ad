import type { Completion } from "../completion.ts";
import type { Format, Head, PrepareContext, Prepared, StreamEncoder } from "../format.ts";
import { checkMessagesBody } from "./canonical-request.ts";
import { thinkingDisplay } from "./reasoning.ts";
import { messageReply } from "./reply.ts";
import { messagesEncoder } from "./stream.ts";

/** Format B, `POST /v1/messages`. */
export const messages: Format = {
  name: "messages",
  fields: { prompt: ["messages"], outputSchema: ["output_config", "format", "schema"] },
  prepare,
};

function prepare(value: unknown, context: PrepareContext): Prepared {
  const { body, request } = checkMessagesBody(value, context);
  const display = thinkingDisplay(body);
  const { model } = request;
  return {
    model,
    stream: body.stream ?? false,
    request,
    encoder: (head: Head): StreamEncoder => messagesEncoder(head, { model, display }),
    reply: (head: Head, completion: Completion): object => messageReply(head, { model, display }, completion),
  };
}
