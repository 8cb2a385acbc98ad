import type { EndpointView } from "./endpoint-view.ts";

/**
 * Returns the `count` owners of a key by weighted rendezvous hashing, the first owner first. All gateways with the same
 * endpoints agree; an endpoint that joins or leaves moves only its own keys. The key must not be a caller's text: the
 * hash is not collision resistant.
 */
export function ownersOf(key: string, endpoints: readonly EndpointView[], count: number): readonly EndpointView[] {
  const seed = fnv1a(key);
  const best: { readonly endpoint: EndpointView; readonly score: number }[] = [];
  for (const endpoint of endpoints) {
    const score = -endpoint.weight / Math.log(shareOf(fnv1a(endpoint.address, seed)));
    if (best.length === count && score <= (best.at(-1)?.score ?? 0)) continue;
    best.push({ endpoint, score });
    best.sort((a, b) => b.score - a.score || (a.endpoint.address < b.endpoint.address ? -1 : 1));
    if (best.length > count) best.pop();
  }
  return best.map(({ endpoint }) => endpoint);
}

/** Returns a deterministic number for a text, uniform over (0, 1) for all texts. */
export function hashShare(text: string): number {
  return shareOf(fnv1a(text));
}

const FNV_PRIME = 0x01000193;
const FNV_OFFSET = 0x811c9dc5;

function fnv1a(text: string, seed = FNV_OFFSET): number {
  let hash = seed;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  return hash;
}

/** Mixes the bits of a hash (MurmurHash3's finalizer), so that texts that differ in one character are far apart. */
function shareOf(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  mixed ^= mixed >>> 16;
  return ((mixed >>> 0) + 0.5) / 2 ** 32;
}
