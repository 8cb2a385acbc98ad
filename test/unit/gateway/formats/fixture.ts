import { ApiError } from "../../../../gateway/errors.ts";
import { errorObjectA, messageOf } from "../../../../gateway/formats/error-envelope.ts";
import type {
  CanonicalRequest,
  CountFormat,
  Format,
  FormatSettings,
  Head,
  PrepareContext,
  Sealer,
} from "../../../../gateway/formats/format.ts";
import { type Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { CONTEXT, HEAD } from "../../../support/events/encoding-context.ts";
import { type PreparedAnswer, prepared } from "../../../support/gateway/prepared-answer.ts";

/** Opens only text that it sealed as the same kind; without a key, so that tests can name the sealed text. */
export const sealer: Sealer = {
  sign: (text) => `signed(${text.length})`,
  seal: (text, kind = "reasoning") => `sealed ${kind}:${text}`,
  open: (sealed, kind = "reasoning") =>
    sealed.startsWith(`sealed ${kind}:`) ? sealed.slice(`sealed ${kind}:`.length) : undefined,
};

export const head: Head = { ...HEAD, sealer };

export type Options = Partial<FormatSettings> & Partial<Pick<PrepareContext, "acceptsImages" | "usableModels">>;

export function contextOf({
  acceptsImages = () => true,
  usableModels = [],
  ...settings
}: Options = {}): PrepareContext {
  const all = { ...CONTEXT.settings, ...settings };
  return { ...CONTEXT, sealer: () => sealer, acceptsImages, usableModels, settings: all };
}

const MINIMAL: Readonly<Record<string, object>> = {
  chat: { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] },
  messages: { model: "svc-qwen", max_tokens: 16, messages: [{ role: "user", content: "hi" }] },
  responses: { model: "svc-qwen", input: "hi" },
};

/** Checks the smallest body of a format with `fields` merged in. */
export function prepare(format: Format, fields: object = {}, options?: Options): PreparedAnswer {
  return prepared(format, { ...MINIMAL[format.name], ...fields }, contextOf(options));
}

export function requestOf(format: Format, fields?: object, options?: Options): CanonicalRequest {
  return prepare(format, fields, options).request;
}

/** The `ApiError` that `run` throws; anything else fails the test. */
export function thrownBy(run: () => unknown): ApiError {
  try {
    run();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** Code and path of a refusal, as callers of chat and responses see them. */
export function faultOf(run: () => unknown): string {
  const { code, param } = errorObjectA(thrownBy(run));
  return `${code} ${param}`;
}

/** The refusal of the smallest body with `fields` merged in: code and path, and in messages their text. */
export function refusal(format: Format | CountFormat, fields: object, options?: Options): string {
  const run = () => format.prepare({ ...MINIMAL[format.name], ...fields }, contextOf(options));
  return format.name === "messages" ? messageOf(thrownBy(run), "b") : faultOf(run);
}

/** The conversation in short form: a role with its parts, and `@` before the seconds of a breakpoint. */
export function outline({ messages }: Pick<CanonicalRequest, "messages">): string {
  const turns = messages.map(({ role, name, parts }) => {
    const word = Object.keys(Role).find((key) => Reflect.get(Role, key) === role) ?? "";
    return [`${word.toLowerCase()}${name === undefined ? "" : `(${name})`}`, ...parts.map(partOutline)].join(" ");
  });
  return turns.join(" | ");
}

function partOutline({ kind, cacheBreakpoint }: Part): string {
  const mark = cacheBreakpoint ? `@${cacheBreakpoint.ttl?.seconds ?? ""}` : "";
  switch (kind?.$case) {
    case "text":
      return JSON.stringify(kind.value.text) + mark;
    case "reasoning":
      return `thought ${JSON.stringify(kind.value.text)}${mark}`;
    case "toolCall":
      return `call(${kind.value.callId} ${kind.value.name} ${kind.value.argumentsJson})${mark}`;
    case "toolResult": {
      const { callId, name, content, isError } = kind.value;
      return `${isError ? "failure" : "result"}(${[callId, name, ...content.map(partOutline)].join(" ")})${mark}`;
    }
    default:
      return `${kind?.value.mimeType} ${kind?.value.detail}${mark}`;
  }
}

export const PNG = Buffer.from("\x89PNG\r\n\x1a\n..", "latin1").toString("base64");
