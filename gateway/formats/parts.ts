import { hash } from "node:crypto";
import {
  ImageDetail as Detail,
  type ImageDetail,
  type ImagePart,
  type Part,
} from "../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError, type ErrorCode, type FieldPath } from "../errors.ts";
import { isJsonObject } from "../json/json-text.ts";
import { invalidValue, unsupportedValue } from "./field-error.ts";
import { cacheBreakpoint } from "./fields.ts";

export function textPart(text: string): Part {
  return { kind: { $case: "text", value: { text } } };
}

/** Throws `ApiError` for empty text, control characters and half surrogate pairs, which encoding would replace. */
export function word(text: string, path: FieldPath): string {
  if (/^[^\p{Cc}\p{Cs}]+$/u.test(text)) return text;
  throw invalidValue(path, "expected a non-empty string without control characters.");
}

const NO_SIGNATURE = Buffer.alloc(0);

/** Returns the reasoning of an earlier turn as parts; none of an empty text. */
export function reasoningParts(text: string): readonly Part[] {
  if (text === "") return [];
  return [{ kind: { $case: "reasoning", value: { text, signature: NO_SIGNATURE, redacted: false } } }];
}

/** Moves the `cache_control` of a message or block to the last of its parts, unless that has its own. */
export function withBreakpoint(parts: readonly Part[], cacheControl: unknown): readonly Part[] {
  const breakpoint = cacheBreakpoint(cacheControl);
  const last = parts.at(-1);
  if (!breakpoint || !last || last.cacheBreakpoint) return parts;
  return [...parts.slice(0, -1), { ...last, cacheBreakpoint: breakpoint }];
}

/** The rule for content that a model cannot read: refused with its path, or replaced by a text. */
export type UnreadableRule = "reject" | "placeholder";

/** The error codes of content that is well-formed but unreadable for the model. */
const UNREADABLE: ReadonlySet<ErrorCode> = new Set(["unsupported_value", "unsupported_parameter", "invalid_value"]);

/**
 * Reads content that the model may be unable to read, such as `an image`. Agents resend the results of their tools with
 * every later turn, so a refusal there would end the session: with the rule `placeholder`, `instead` receives a text
 * for the model. Throws `ApiError` as `read` does for malformed content, and with the rule `reject`.
 */
export function readOr<Content>(
  rule: UnreadableRule,
  what: string,
  read: () => Content,
  instead: (text: string) => Content,
): Content {
  try {
    return read();
  } catch (error) {
    if (rule === "reject" || !(error instanceof ApiError) || !UNREADABLE.has(error.code)) throw error;
    return instead(`[Here was ${what}, which this model cannot read.]`);
  }
}

/**
 * Returns whether parts of unknown types are left out of `content`, which is open: beside one of a `known` type. Content
 * of unknown parts alone is refused where it is read, as the model would see none of it.
 */
export function leavesUnknownOut(content: readonly unknown[], known: (type: string) => boolean): boolean {
  return content.some((part) => isJsonObject(part) && typeof part.type === "string" && known(part.type));
}

export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;

type MimeType = (typeof IMAGE_TYPES)[number];

const MIME_TYPES: ReadonlyMap<string, MimeType> = new Map([
  ["image/png", "image/png"],
  ["image/jpeg", "image/jpeg"],
  ["image/jpg", "image/jpeg"],
  ["image/gif", "image/gif"],
  ["image/webp", "image/webp"],
]);

/** `auto` is the model's default, and `high` the finest level of models. */
export const IMAGE_DETAILS = {
  auto: Detail.UNSPECIFIED,
  low: Detail.LOW,
  high: Detail.HIGH,
  original: Detail.HIGH,
} as const;

/** The head of a `data:` URL, bounded, as the rest of the text may be megabytes. */
const DATA_URL_HEAD = /^data:([a-z]{1,16}\/[a-z0-9.+-]{1,64})(?:;[a-z0-9=._-]{1,64}){0,4};base64,/i;

/** `path` leads to the content part. */
export function imagesNotAccepted(path: FieldPath): ApiError {
  return unsupportedValue(path, "This model does not take images.");
}

/**
 * Other URLs than `data:` are refused: fetching a caller's URL would let callers reach every host that the gateway can
 * reach. Throws `ApiError` `unsupported_value` for those, otherwise as `imageFromData`.
 */
export function imageFromUrl(url: string, path: FieldPath, detail: ImageDetail = Detail.UNSPECIFIED): ImagePart {
  if (!/^data:/i.test(url))
    throw unsupportedValue(path, "Only 'data:' URLs with base64 data are supported; image URLs are not fetched.");
  const head = DATA_URL_HEAD.exec(url);
  if (!head) throw invalidValue(path, "expected a URL of the form 'data:<image type>;base64,<data>'.");
  return imageFromBase64(head[1] ?? "", url.slice(head[0].length), { mimeType: path, data: path }, detail);
}

/** Throws `ApiError` `invalid_value` for text that is not base64, otherwise as `imageFromData`. */
export function imageFromBase64(
  mimeType: string,
  base64: string,
  paths: { readonly mimeType: FieldPath; readonly data: FieldPath },
  detail: ImageDetail = Detail.UNSPECIFIED,
): ImagePart {
  const data = Buffer.from(base64, "base64");
  // The decoder skips characters that are not base64, so such text decodes to fewer bytes than its length implies.
  if (data.length === 0 || data.length !== Buffer.byteLength(base64, "base64"))
    throw invalidValue(paths.data, "expected base64 data.");
  return imageFromData(mimeType, data, paths, detail);
}

/**
 * Makes an image, whose type comes from the data, as clients derive the declared one from a file name. Throws `ApiError`
 * `unsupported_value` for data that is neither of a known type nor declared as one, and `invalid_value` for data that
 * does not match its declared type.
 */
export function imageFromData(
  mimeType: string,
  data: Buffer,
  paths: { readonly mimeType: FieldPath; readonly data: FieldPath },
  detail: ImageDetail,
): ImagePart {
  const named = MIME_TYPES.get(mimeType.toLowerCase());
  const type = sniff(data);
  if (!type && !named) throw unsupportedValue(paths.mimeType, `Supported image types are: ${IMAGE_TYPES.join(", ")}.`);
  if (!type) throw invalidValue(paths.data, `the data is not an image of the type ${named}.`);
  return {
    source: { $case: "data", value: data },
    mimeType: type,
    detail,
    contentSha256: hash("sha256", data, "buffer"),
  };
}

function sniff(data: Buffer): MimeType | undefined {
  const ascii = data.toString("latin1", 0, 12);
  if (ascii.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (ascii.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (ascii.startsWith("GIF87a") || ascii.startsWith("GIF89a")) return "image/gif";
  if (ascii.startsWith("RIFF") && ascii.endsWith("WEBP")) return "image/webp";
  return undefined;
}
