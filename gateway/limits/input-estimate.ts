import type { Message, Part } from "../../proto/gen/svc/inference/v1/messages.ts";

/** Bytes of text per token: low for prose, high for code and other languages; JSON syntax is included. */
const BYTES_PER_TOKEN = 3;
/** Tokens per image: about those of a medium image in vision models. */
const TOKENS_PER_IMAGE = 1_500;
/** Size of base64 relative to the encoded bytes. */
const BASE64_GROWTH = 4 / 3;

/**
 * Estimates the input tokens of a request from the bytes of its body, until the engine has counted them; at least 1.
 */
export function estimateInputTokens(bodyBytes: number, messages: readonly Message[]): number {
  const images = messages.flatMap(({ parts }) => imagesOf(parts));
  const imageBytes = images.reduce((sum, bytes) => sum + bytes * BASE64_GROWTH, 0);
  const textBytes = Math.max(0, bodyBytes - imageBytes);
  return Math.max(1, Math.ceil(textBytes / BYTES_PER_TOKEN) + images.length * TOKENS_PER_IMAGE);
}

/** Returns the size of each image in bytes; 0 for an image outside the body. */
function imagesOf(parts: readonly Part[]): number[] {
  return parts.flatMap(({ kind }) => {
    if (kind?.$case === "toolResult") return imagesOf(kind.value.content);
    if (kind?.$case !== "image") return [];
    const { source } = kind.value;
    return [source?.$case === "data" ? source.value.byteLength : 0];
  });
}
