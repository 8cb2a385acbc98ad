import type { EndpointView } from "../../endpoint-view.ts";

/**
 * Returns the owner of a key by weighted rendezvous hashing. All gateways with the same endpoints agree; an endpoint
 * that joins or leaves moves only its own keys. The key must not be a caller's text: the hash is not collision resistant.
 * Returns undefined only for an empty list.
 *
 * Each endpoint draws a number u uniform over (0, 1) from key and address, and the greatest -weight / ln(u) owns the key:
 * the share of keys of an endpoint is its share of the weights.
 */
export function ownerOf(key: string, endpoints: readonly EndpointView[]): EndpointView | undefined {
  const seed = fnv1a(key);
  let best: { readonly endpoint: EndpointView; readonly score: number } | undefined;
  for (const endpoint of endpoints) {
    const score = -endpoint.weight / Math.log(shareOf(fnv1a(endpoint.address, seed)));
    if (!best || score > best.score) best = { endpoint, score };
  }
  return best?.endpoint;
}

const FNV_PRIME = 0x01000193;
const FNV_OFFSET = 0x811c9dc5;

function fnv1a(text: string, seed = FNV_OFFSET): number {
  let hash = seed;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  return hash;
}

/**
 * Maps a hash to a number that is uniform over (0, 1). Its bits are mixed (MurmurHash3's finalizer), so that texts that
 * differ in one character are far apart.
 */
function shareOf(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  mixed ^= mixed >>> 16;
  return ((mixed >>> 0) + 0.5) / 2 ** 32;
}
