import { bracketPath } from "../../../../../gateway/formats/error-envelope.ts";
import type { FormatSettings, Head, Sealer } from "../../../../../gateway/formats/format.ts";
import { responses } from "../../../../../gateway/formats/responses/request.ts";
import { CONTEXT, HEAD } from "../../../../support/events/encoding-context.ts";
import { type PreparedAnswer, prepared } from "../../../../support/gateway/prepared-answer.ts";
import { thrownBy } from "../thrown-by.ts";

/** Opens only text that it sealed as the same kind; without a key, so that tests can name the sealed text. */
export const sealer: Sealer = {
  sign: (text) => `signed ${text}`,
  seal: (text, kind = "reasoning") => `sealed ${kind} ${Buffer.from(text).toString("base64url")}`,
  open: (sealed, kind = "reasoning") => {
    const mark = `sealed ${kind} `;
    return sealed.startsWith(mark) ? Buffer.from(sealed.slice(mark.length), "base64url").toString() : undefined;
  },
};

export const head: Head = { ...HEAD, sealer };

type Options = { readonly images?: boolean; readonly unsupportedTools?: FormatSettings["unsupportedTools"] };

/** The smallest valid body with `extra` merged in, checked. */
export function prepare(extra: object = {}, options: Options = {}): PreparedAnswer {
  const settings = { ...CONTEXT.settings, unsupportedTools: options.unsupportedTools ?? "reject" };
  const context = { ...CONTEXT, sealer: () => sealer, acceptsImages: () => options.images ?? true, settings };
  return prepared(responses, { model: "svc-qwen", input: "hi", ...extra }, context);
}

/** The caller's view of the refusal of such a body: code, path and message. */
export function refusal(extra: object, options: Options = {}): readonly [string, string, string] {
  const error = thrownBy(() => prepare(extra, options));
  return [error.code, bracketPath(error.path ?? []), error.message];
}
