import type { Completion } from "../../../gateway/formats/completion.ts";
import type { Format, Head, PrepareContext, Prepared, StreamEncoder } from "../../../gateway/formats/format.ts";

export type PreparedAnswer = Prepared & {
  encoder(head: Head): StreamEncoder;
  reply(head: Head, completion: Completion): object;
};

export function prepared(format: Format, body: unknown, context: PrepareContext): PreparedAnswer {
  const request = format.prepare(body, context);
  return {
    ...request,
    encoder: (head) => format.encoder(head, request.options),
    reply: (head, completion) => format.reply(head, completion, request.options),
  };
}
