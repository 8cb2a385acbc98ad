import type { Message, Part } from "../../proto/gen/svc/inference/v1/messages.ts";

/**
 * The bytes of text to a token: on the low side for prose, on the high side for code and other languages; JSON's own
 * characters are in it.
 */
const BYTES_PER_TOKEN = 3;
/** The tokens that an image counts as: about what one of middle size takes in models that see. */
const TOKENS_PER_IMAGE = 1_500;
/** The factor by which base64 is longer than what it stands for. */
const BASE64_GROWTH = 4 / 3;

/**
 * Estimates the input tokens of a request from the bytes of its body, for the time until the engine has counted them;
 * at least 1.
 */
export function estimateInputTokens(bodyBytes: number, messages: readonly Message[]): number {
  const images = messages.flatMap(({ parts }) => imagesOf(parts));
  const imageBytes = images.reduce((sum, bytes) => sum + bytes * BASE64_GROWTH, 0);
  const textBytes = Math.max(0, bodyBytes - imageBytes);
  return Math.max(1, Math.ceil(textBytes / BYTES_PER_TOKEN) + images.length * TOKENS_PER_IMAGE);
}

/** Returns the size of each image in bytes; 0 for one that is not in the body itself. */
function imagesOf(parts: readonly Part[]): number[] {
  return parts.flatMap(({ kind }) => {
    if (kind?.$case === "toolResult") return imagesOf(kind.value.content);
    if (kind?.$case !== "image") return [];
    const { source } = kind.value;
    return [source?.$case === "data" ? source.value.byteLength : 0];
  });
}
