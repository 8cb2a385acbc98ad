import type { Format } from "../format.ts";
import { checkMessagesBody } from "./canonical-request.ts";
import { thinkingDisplay } from "./reasoning.ts";
import { type Asked, messageReply } from "./reply.ts";
import { messagesEncoder } from "./stream.ts";

/** Format B, `POST /v1/messages`. */
export const messages: Format<Asked> = {
  name: "messages",
  fields: {
    prompt: ["messages"],
    instructions: ["system"],
    outputSchema: ["output_config", "format", "schema"],
    toolSchema: ["input_schema"],
  },
  repeatsCutStreams: true,
  prepare(value, context) {
    const { body, request, toolPaths, messagePlaces } = checkMessagesBody(value, context);
    const { model } = request;
    const options = { model, display: thinkingDisplay(body) };
    return { model, stream: body.stream ?? false, request, options, toolPaths, messagePlaces };
  },
  encoder: messagesEncoder,
  reply: (head, completion, asked) => messageReply(head, asked, completion),
};
