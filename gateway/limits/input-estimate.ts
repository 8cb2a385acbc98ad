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
  let [images, imageBytes] = [0, 0];
  for (const { parts } of messages)
    for (const bytes of imagesOf(parts)) {
      images += 1;
      imageBytes += bytes * BASE64_GROWTH;
    }
  const textBytes = Math.max(0, bodyBytes - imageBytes);
  return Math.max(1, Math.ceil(textBytes / BYTES_PER_TOKEN) + images * TOKENS_PER_IMAGE);
}

/** Yields the size of each image in bytes; 0 for an image outside the body. */
function* imagesOf(parts: readonly Part[]): Generator<number> {
  for (const { kind } of parts)
    if (kind?.$case === "toolResult") yield* imagesOf(kind.value.content);
    else if (kind?.$case === "image") {
      const { source } = kind.value;
      yield source?.$case === "data" ? source.value.byteLength : 0;
    }
}
