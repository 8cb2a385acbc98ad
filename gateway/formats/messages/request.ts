import type { Format } from "../format.ts";
import { checkMessagesBody } from "./canonical-request.ts";
import { thinkingDisplay } from "./reasoning.ts";
import { type Asked, messageReply } from "./reply.ts";
import { messagesEncoder } from "./stream.ts";

/** Format B, `POST /v1/messages`. */
export const messages: Format<Asked> = {
  name: "messages",
  fields: { prompt: ["messages"], outputSchema: ["output_config", "format", "schema"] },
  prepare(value, context) {
    const { body, request } = checkMessagesBody(value, context);
    const { model } = request;
    return { model, stream: body.stream ?? false, request, options: { model, display: thinkingDisplay(body) } };
  },
  encoder: messagesEncoder,
  reply: (head, completion, asked) => messageReply(head, asked, completion),
};
