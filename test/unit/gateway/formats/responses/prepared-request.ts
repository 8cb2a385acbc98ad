import { DEFAULT_CATALOG } from "../../../../../gateway/catalog.ts";
import { ApiError } from "../../../../../gateway/errors.ts";
import { bracketPath } from "../../../../../gateway/formats/error-envelope.ts";
import type { FormatSettings, Head, Sealer } from "../../../../../gateway/formats/format.ts";
import { responses } from "../../../../../gateway/formats/responses/request.ts";
import { FORMAT_SETTINGS } from "../../../../support/events/format-settings.ts";
import { type PreparedAnswer, prepared } from "../../../../support/gateway/prepared-answer.ts";

/** Opens only text that it sealed as the same kind; without a key, so that tests can name the sealed text. */
export const sealer: Sealer = {
  sign: (text) => `signed ${text}`,
  seal: (text, kind = "reasoning") => `sealed ${kind} ${Buffer.from(text).toString("base64url")}`,
  open: (sealed, kind = "reasoning") => {
    const mark = `sealed ${kind} `;
    return sealed.startsWith(mark) ? Buffer.from(sealed.slice(mark.length), "base64url").toString() : undefined;
  },
};

export const head: Head = {
  replyId: "abcdefghijklmnopqrstuvwx",
  requestId: "req_1",
  createdSeconds: 1_800_000_000,
  nowSeconds: () => 1_800_000_007,
  sealer,
};

type Options = { readonly images?: boolean; readonly unsupportedTools?: FormatSettings["unsupportedTools"] };

/** The smallest valid body with `extra` merged in, checked. */
export function prepare(extra: object = {}, options: Options = {}): PreparedAnswer {
  return prepared(
    responses,
    { model: "svc-qwen", input: "hi", ...extra },
    {
      sealer: () => sealer,
      acceptsImages: () => options.images ?? true,
      settings: { ...FORMAT_SETTINGS, unsupportedTools: options.unsupportedTools ?? "reject" },
      catalog: DEFAULT_CATALOG,
      usableModels: [],
    },
  );
}

/** The caller's view of the refusal of such a body: code, path and message. */
export function refusal(extra: object, options: Options = {}): readonly [string, string, string] {
  try {
    prepare(extra, options);
  } catch (error) {
    if (error instanceof ApiError) return [error.code, bracketPath(error.path ?? []), error.message];
    throw error;
  }
  throw new Error("the body was accepted");
}
