import type { ImagePart, Part } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { missing, oneOf, unsupportedParameter, unsupportedValue, wrongType } from "../field-error.ts";
import { imageDetail, imageFromUrl, imagesNotAccepted } from "../image.ts";
import { readOr, type UnreadableRule } from "../unreadable.ts";

/** Whether images are accepted, and if not, why: by the model, or at this place. */
export type ImageRule = "accepted" | "not_by_model" | "not_here";

/**
 * Reads a string or an array of content parts; `path` leads to it. `unreadable` says what becomes of images and files that
 * the model cannot take, where images may stand. Throws `ApiError`.
 */
export function contentParts(
  content: unknown,
  path: FieldPath,
  images: ImageRule,
  unreadable: UnreadableRule,
): readonly Part[] {
  if (content === undefined) throw missing(path);
  if (typeof content === "string") return [textPart(content)];
  if (!Array.isArray(content)) throw wrongType(path, "a string or an array of content parts", content);
  return content.map((part: unknown, index) => contentPart(part, [...path, index], images, unreadable));
}

/** Makes a text part of the canonical form out of a caller's text. */
export function textPart(text: string): Part {
  return { kind: { $case: "text", value: { text } } };
}

/** Reads a string that has to be there. Throws `ApiError`. */
export function requiredString(source: JsonObject, key: string, path: FieldPath): string {
  const value = source[key];
  if (value === undefined || value === null) throw missing([...path, key]);
  if (typeof value !== "string") throw wrongType([...path, key], "a string", value);
  return value;
}

/** Reads one part. Agents mix the words for input and output text, so either is taken in every role. */
function contentPart(part: unknown, path: FieldPath, images: ImageRule, wanted: UnreadableRule): Part {
  const unreadable = images === "not_here" ? "reject" : wanted;
  if (!isJsonObject(part)) throw wrongType(path, "an object", part);
  switch (part.type) {
    case "input_text":
    case "output_text":
      return textPart(requiredString(part, "text", path));
    case "refusal":
      return textPart(requiredString(part, "refusal", path));
    case "input_image":
      return readOr<Part>(
        unreadable,
        "an image",
        () => ({ kind: { $case: "image", value: image(part, path, images) } }),
        textPart,
      );
    case "input_file":
      return readOr(unreadable, "a file", () => refuseFile(path), textPart);
    case undefined:
    case null:
      throw missing([...path, "type"]);
    default:
      throw oneOf([...path, "type"], ["input_text", "input_image", "output_text", "refusal"]);
  }
}

function refuseFile(path: FieldPath): never {
  throw unsupportedValue([...path, "type"], "Files are not supported: send their text as 'input_text'.");
}

function image(part: JsonObject, path: FieldPath, images: ImageRule): ImagePart {
  if (images === "not_here")
    throw unsupportedValue(path, "Images are supported in user messages and in function call outputs only.");
  if (images === "not_by_model") throw imagesNotAccepted(path);
  if (part.file_id !== undefined && part.file_id !== null)
    throw unsupportedParameter([...path, "file_id"], "No files are stored: send a 'data:' URL in 'image_url'.");
  // `original` asks for no scaling at all, and the finest that models know is `high`.
  const wanted = part.detail === "original" ? "high" : part.detail;
  const detail = imageDetail(wanted, [...path, "detail"]);
  return imageFromUrl(requiredString(part, "image_url", path), [...path, "image_url"], detail);
}
