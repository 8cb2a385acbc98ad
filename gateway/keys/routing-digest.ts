import { createHmac } from "node:crypto";

/**
 * Returns 32 bytes that differ for every key, purpose and list of parts, and tell nothing about them. `key` is the
 * `routingKey` of a principal: gateways that share keys digest alike, so that they agree on where a conversation
 * belongs.
 */
export function routingDigest(key: Uint8Array, purpose: "prefix" | "affinity", ...parts: readonly string[]): Buffer {
  return createHmac("sha256", key)
    .update(JSON.stringify([purpose, ...parts]))
    .digest();
}
