import { chat } from "../../../../../gateway/formats/chat/request.ts";
import { CONTEXT } from "../../../../support/events/encoding-context.ts";
import { type PreparedAnswer, prepared } from "../../../../support/gateway/prepared-answer.ts";

/** The smallest valid body. */
export const minimal = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] };

/** Checks `fields` merged into the minimal body; svc-kimik3 accepts images, the others do not. */
export function prepareChat(fields: object): PreparedAnswer {
  return prepareBody({ ...minimal, ...fields });
}

export function prepareBody(body: unknown): PreparedAnswer {
  return prepared(chat, body, { ...CONTEXT, acceptsImages: (model) => model === "svc-kimik3" });
}
