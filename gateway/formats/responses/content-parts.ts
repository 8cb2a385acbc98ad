import type { ImagePart, Part } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { missing, oneOf, unsupportedParameter, unsupportedValue, wrongType } from "../field-error.ts";
import { IMAGE_DETAILS, imageFromUrl, imagesNotAccepted } from "../image.ts";
import { readOr, type UnreadableRule } from "../unreadable.ts";
import { inputImage, inputText, refusalPart } from "./schema.ts";

/** Whether images are accepted, and if not, why: the model, or the position. */
export type ImageRule = "accepted" | "not_by_model" | "not_here";

/**
 * Reads a string or an array of content parts; `path` leads to it. `unreadable` is the rule for images and files that
 * the model cannot read, where images are accepted. Throws `ApiError`.
 */
export function contentParts(
  content: string | readonly unknown[],
  path: FieldPath,
  images: ImageRule,
  unreadable: UnreadableRule,
): readonly Part[] {
  if (typeof content === "string") return [textPart(content)];
  return content.map((part, index) => contentPart(part, [...path, index], images, unreadable));
}

export function textPart(text: string): Part {
  return { kind: { $case: "text", value: { text } } };
}

/** Reads one part. Agents mix the types of input and output text, so either is accepted in every role. */
function contentPart(part: unknown, path: FieldPath, images: ImageRule, wanted: UnreadableRule): Part {
  const unreadable = images === "not_here" ? "reject" : wanted;
  if (!isJsonObject(part)) throw wrongType(path, "an object", part);
  switch (part.type) {
    case "input_text":
    case "output_text":
      return textPart(checked(inputText, part, path).text);
    case "refusal":
      return textPart(checked(refusalPart, part, path).refusal);
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
  const { image_url, detail } = checked(inputImage, part, path);
  return imageFromUrl(image_url, [...path, "image_url"], IMAGE_DETAILS[detail ?? "auto"]);
}
