import { DEFAULT_CATALOG } from "../../../../../gateway/catalog.ts";
import { chat } from "../../../../../gateway/formats/chat/request.ts";
import type { Head, Sealer } from "../../../../../gateway/formats/format.ts";
import { FORMAT_SETTINGS } from "../../../../support/events/format-settings.ts";
import { type PreparedAnswer, prepared } from "../../../../support/gateway/prepared-answer.ts";

function neverCalled(): never {
  throw new Error("chat seals nothing");
}

const sealer: Sealer = { sign: neverCalled, seal: neverCalled, open: neverCalled };

export const head: Head = {
  replyId: "AAAAAAAAAAAAAAAAAAAAAAAA",
  requestId: "req_1",
  createdSeconds: 1_795_000_000,
  nowSeconds: () => 1_795_000_009,
  sealer,
};

/** The smallest valid body. */
export const minimal = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] };

/** Checks `fields` merged into the minimal body; svc-kimik3 accepts images, the others do not. */
export function prepareChat(fields: object): PreparedAnswer {
  return prepareBody({ ...minimal, ...fields });
}

export function prepareBody(body: unknown): PreparedAnswer {
  return prepared(chat, body, {
    sealer: () => sealer,
    acceptsImages: (model) => model === "svc-kimik3",
    settings: FORMAT_SETTINGS,
    catalog: DEFAULT_CATALOG,
    usableModels: [],
  });
}
