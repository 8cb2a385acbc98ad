import { errorBodyB } from "../../../../../gateway/formats/error-envelope.ts";
import type { Head, PrepareContext } from "../../../../../gateway/formats/format.ts";
import { CONTEXT, HEAD } from "../../../../support/events/encoding-context.ts";
import { thrownBy } from "../thrown-by.ts";

const sealer = {
  sign: (text: string) => `signed(${text.length})`,
  seal: (text: string) => `sealed:${text}`,
  open: (sealed: string) => (sealed.startsWith("sealed:") ? sealed.slice("sealed:".length) : undefined),
};

export const context: PrepareContext = { ...CONTEXT, sealer: () => sealer, acceptsImages: () => true };
export const head: Head = { ...HEAD, sealer };

export const minimal = { model: "svc-qwen", max_tokens: 16, messages: [{ role: "user", content: "hi" }] };

/** The `error` object of Format B as a caller sees it. */
export function errorOf(run: () => unknown) {
  return errorBodyB(thrownBy(run), "req_1").error;
}
