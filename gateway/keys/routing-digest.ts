import { hmacSha256 } from "../hmac.ts";

/**
 * Returns 32 bytes that differ for every key, purpose and list of parts, and reveal nothing about them. `key` is the
 * `routingKey` of a principal: gateways that share keys compute the same digest, so that they route a conversation
 * alike.
 */
export function routingDigest(key: Uint8Array, purpose: "prefix" | "affinity", ...parts: readonly string[]): Buffer {
  return hmacSha256(key, JSON.stringify([purpose, ...parts]));
}
