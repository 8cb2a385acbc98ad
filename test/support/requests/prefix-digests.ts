import { createHash } from "node:crypto";
import type { Message } from "../../../proto/gen/svc/inference/v1/messages.ts";

/** Returns the digest of the first `count` messages, as a gateway sends it. */
export function digestOf(messages: readonly Message[], count = messages.length): Buffer {
  const written = JSON.stringify(messages.slice(0, count));
  return createHash("sha256").update(written).digest().subarray(0, 16);
}

/** Returns the digests of all messages up to each position. */
export function digestsOf(messages: readonly Message[]): Buffer {
  return Buffer.concat(messages.map((_, index) => digestOf(messages, index + 1)));
}
