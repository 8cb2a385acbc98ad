import * as z from "zod";
import type { Part } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { cacheBreakpoint } from "../cache-control.ts";
import { checked } from "../checked.ts";
import { oneOf, unsupportedValue, wrongType } from "../field-error.ts";
import { IMAGE_DETAILS, imageFromUrl, imagesNotAccepted } from "../image.ts";
import { readOr, type UnreadableRule } from "../unreadable.ts";
import { chatParts } from "./schema.ts";

/** The kinds of content parts that a message accepts besides text. */
export type ContentRule = {
  /** The other kind of part that is accepted; undefined for none. `image_url` also needs a model with image input. */
  readonly also: "image_url" | "refusal" | undefined;
  /** Whether the model has image input. */
  readonly acceptsImages: boolean;
  /** The rule for images and files that the model cannot read, where images are accepted. */
  readonly unreadable: UnreadableRule;
};

/**
 * Reads the parts of a `content`: a string, an array of parts, or null and absent for none. Empty text is left out
 * unless a prefix is marked to end there, so that all forms of empty content give the same prompt.
 */
export function contentParts(content: unknown, path: FieldPath, rule: ContentRule): readonly Part[] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return content === "" ? [] : [textPart(content)];
  if (!Array.isArray(content)) throw wrongType(path, "a string or an array of content parts", content);
  return content
    .map((part: unknown, index) => contentPart(part, [...path, index], rule))
    .filter((part) => part.kind?.$case !== "text" || part.kind.value.text !== "" || part.cacheBreakpoint);
}

export function textPart(text: string): Part {
  return { kind: { $case: "text", value: { text } } };
}

function contentPart(part: unknown, path: FieldPath, rule: ContentRule): Part {
  const { type, cache_control } = checked(ANY_PART, part, path);
  return { kind: partKind(type, part, path, rule), cacheBreakpoint: cacheBreakpoint(cache_control) };
}

const ANY_PART = z.object({ type: z.string(), cache_control: z.unknown() });

function partKind(type: string, part: unknown, path: FieldPath, rule: ContentRule): Part["kind"] {
  const typePath = [...path, "type"];
  if (type === "text") return textPart(checked(chatParts.text, part, path).text).kind;
  if (type === "refusal" && rule.also === "refusal")
    return textPart(checked(chatParts.refusal, part, path).refusal).kind;
  const instead = (text: string) => textPart(text).kind;
  if (type === "image_url" && rule.also === "image_url")
    return readOr(rule.unreadable, "an image", () => imageKind(part, path, rule), instead);
  if (type === "input_audio" || type === "file") {
    const refuse = () => {
      throw unsupportedValue(typePath, "Audio and files are not supported in messages.");
    };
    const unreadable = rule.also === "image_url" ? rule.unreadable : "reject";
    return readOr<Part["kind"]>(unreadable, type === "file" ? "a file" : "a recording", refuse, instead);
  }
  throw oneOf(typePath, rule.also ? ["text", rule.also] : ["text"]);
}

function imageKind(part: unknown, path: FieldPath, rule: ContentRule): Part["kind"] {
  if (!rule.acceptsImages) throw imagesNotAccepted(path);
  const { url, detail } = checked(chatParts.image_url, part, path).image_url;
  return { $case: "image", value: imageFromUrl(url, [...path, "image_url", "url"], IMAGE_DETAILS[detail ?? "auto"]) };
}
