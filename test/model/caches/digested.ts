import { createHash } from "node:crypto";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message, Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { request } from "../../support/engine/demo-engine.ts";

/** Returns the digest of the first `count` messages, as a gateway sends it. */
export function digestOf(messages: readonly Message[], count: number): Buffer {
  return createHash("sha256")
    .update(JSON.stringify(messages.slice(0, count)))
    .digest()
    .subarray(0, 16);
}

/** Creates a request with the digests of a gateway; the head is the one system message. */
export function digested(
  messages: readonly Message[],
  tools: readonly Tool[] = [],
  more: Partial<GenerateRequest> = {},
): GenerateRequest {
  const prefixDigests = Buffer.concat(messages.map((_, index) => digestOf(messages, index + 1)));
  return request(messages, { tools, prefixDigests, maxOutputTokens: 12, ...more });
}
