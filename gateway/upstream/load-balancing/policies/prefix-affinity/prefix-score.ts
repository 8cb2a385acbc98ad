import { headOf, type PromptShape } from "../../boundary-hashes.ts";
import type { Candidates } from "../../candidates.ts";
import { type EndpointView, requestsOn } from "../../endpoint-view.ts";
import { type HashRing, hashShare } from "../../hash-ring.ts";
import type { Holder, PlacementMap } from "./placement-map.ts";
import type { PrefixAffinitySettings } from "./prefix-affinity-settings.ts";

/**
 * The number of times of the second owner's load that the first owner may have. It is another one for every
 * conversation, from `least` to `least` and `spread` together.
 */
const OWNER_TOLERANCE = { least: 1.1, spread: 1 };

/** The request that an endpoint is picked for. */
export type PrefixRequest = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
};

/** What a pick by prefix affinity goes by, beside endpoints and request. */
export type PrefixContext = {
  /** The beliefs on which endpoints hold which prefixes. */
  readonly placements: PlacementMap;
  /** The hash ring of all members of the cluster. */
  readonly ring: HashRing;
  /** The tokens to a byte of prompt, as learned for the model; above 0. */
  readonly tokensPerByte: number;
  /** Monotonic milliseconds of the pick. */
  readonly nowMs: number;
  /** Returns the share of its speed that an endpoint is trusted with while it warms up, above 0 and at most 1. */
  readonly shareOf: (endpoint: EndpointView) => number;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** The settings of prefix affinity. */
  readonly settings: PrefixAffinitySettings;
};

/** What a pick expects of its endpoint, to be held against what the engine then measures. */
export type Prediction = {
  /** The number of tokens of the whole prompt. */
  readonly tokens: number;
  /** The number of the prompt's tokens that are not in the endpoint's cache. */
  readonly uncachedTokens: number;
  /** The belief that the prediction rests on; undefined when there was none. */
  readonly belief: Holder | undefined;
};

/** The endpoint that was picked, and the `prediction` of what it will have to do. */
export type PrefixPick = { readonly endpoint: EndpointView; readonly prediction: Prediction };

/**
 * Picks the candidate that will have prefilled the prompt first: the one with the fewest seconds for what it has yet to
 * do and for what of this prompt it does not hold, plus a little for its load. Candidates are the endpoints that hold
 * most of the prompt, the owners of the conversation on the ring, and one at random, who keeps the others honest.
 * Returns undefined for an empty list only.
 *
 * The ring makes gateways that share nothing agree on new conversations. Its key is caller and conversation head
 * together: a key that all callers share does not gather them on one endpoint, nor does a head that all conversations
 * share.
 */
export function pickPrefixAffinity(
  endpoints: Candidates,
  request: PrefixRequest,
  context: PrefixContext,
): PrefixPick | undefined {
  const { settings, shareOf } = context;
  const beliefs = believedHolders(request.shape, context);
  const owners = ringOwners(endpoints, request, context);
  let best: (PrefixPick & { readonly seconds: number }) | undefined;
  for (const endpoint of candidatesOf(endpoints, beliefs.byAddress, owners, context)) {
    const rank = owners.indexOf(endpoint);
    const prediction = predict(endpoint, rank, request.shape, beliefs, context);
    const seconds =
      (endpoint.outstandingPrefillTokens + weighed(prediction, request.shape, context)) /
        (endpoint.prefillTokensPerSecond * shareOf(endpoint)) +
      (settings.kvCostSeconds * endpoint.kvUse) / Math.max(1 - endpoint.kvUse, 0.001) +
      settings.requestCostSeconds * requestsOn(endpoint) -
      (beliefs.upToDate ? 0 : (settings.ownerWorthSeconds[rank] ?? 0));
    if (!best || seconds < best.seconds) best = { endpoint, prediction, seconds };
  }
  return best && { endpoint: best.endpoint, prediction: best.prediction };
}

function weighed(
  { belief, uncachedTokens }: Prediction,
  { boundaries }: PromptShape,
  { tokensPerByte, settings }: PrefixContext,
): number {
  const headTokens = belief ? 0 : Math.min(uncachedTokens, (boundaries[0]?.bytes ?? 0) * tokensPerByte);
  return headTokens + settings.uncachedWeight * (uncachedTokens - headTokens);
}

/** The longest part of a prompt that one endpoint is believed to hold, and its size in bytes of the prompt. */
type Belief = { readonly holder: Holder; readonly bytes: number };

type Beliefs = {
  /** The longest part of the prompt that each endpoint is believed to hold, longest first. */
  readonly byAddress: ReadonlyMap<string, Belief>;
  /** Whether this gateway saw the conversation's last turn. Where it did not, another gateway may have placed it. */
  readonly upToDate: boolean;
};

function believedHolders({ boundaries, lastTurn }: PromptShape, { placements, nowMs }: PrefixContext): Beliefs {
  const byAddress = new Map<string, Belief>();
  let longest = 0;
  for (let index = boundaries.length - 1; index >= 0; index -= 1) {
    const boundary = boundaries[index];
    if (!boundary) continue;
    for (const holder of placements.holders(boundary.hash, nowMs)) {
      if (!byAddress.has(holder.address)) byAddress.set(holder.address, { holder, bytes: boundary.bytes });
      longest = Math.max(longest, index);
    }
  }
  return { byAddress, upToDate: longest > 0 && longest >= (lastTurn ?? 0) };
}

function ringOwners(
  endpoints: Candidates,
  { shape, affinityKey }: PrefixRequest,
  { ring, settings }: PrefixContext,
): readonly EndpointView[] {
  const owners: EndpointView[] = [];
  for (const address of ring.ownersOf(`${affinityKey} ${headOf(shape)}`)) {
    if (owners.length >= settings.ownerCandidates) break;
    const owner = endpoints.get(address);
    if (owner) owners.push(owner);
  }
  return inOrderOfLoad(owners, `${headOf(shape)} ${affinityKey}`);
}

/**
 * Returns the owners of a conversation, the first one to be preferred. By chance alone some endpoint owns many more
 * conversations than others. So the second owner comes first when the first one had the higher load for minutes; how
 * much higher is another for every conversation, and so they move one by one.
 */
function inOrderOfLoad(owners: readonly EndpointView[], key: string): readonly EndpointView[] {
  const [first, second, ...others] = owners;
  if (!first || !second) return owners;
  const tolerated = OWNER_TOLERANCE.least + OWNER_TOLERANCE.spread * hashShare(key);
  // One request more or less is chance.
  if (first.meanRequests + 1 <= (second.meanRequests + 1) * tolerated) return owners;
  return [second, first, ...others];
}

function candidatesOf(
  endpoints: Candidates,
  beliefs: ReadonlyMap<string, Belief>,
  owners: readonly EndpointView[],
  { settings, random }: PrefixContext,
): Iterable<EndpointView> {
  const { all } = endpoints;
  if (all.length <= settings.scoreAllUpTo) return all;
  const bytesAt = ({ address }: EndpointView) => beliefs.get(address)?.bytes ?? 0;
  const holders = [...beliefs.keys()]
    .flatMap((address) => endpoints.get(address) ?? [])
    // Of equals the less busy ones.
    .sort((a, b) => bytesAt(b) - bytesAt(a) || requestsOn(a) - requestsOn(b))
    .slice(0, settings.placementCandidates);
  const any = all[Math.floor(random() * all.length)];
  return new Set([...holders, ...owners, ...(any ? [any] : [])]);
}

function predict(
  { address }: EndpointView,
  ownerRank: number,
  { boundaries, lastTurn }: PromptShape,
  { byAddress, upToDate }: Beliefs,
  { tokensPerByte, settings }: PrefixContext,
): Prediction {
  const belief = byAddress.get(address);
  const heldBytes = belief?.bytes ?? 0;
  const newBytes = (boundaries.at(-1)?.bytes ?? 0) - heldBytes;
  const newTokens = newBytes * tokensPerByte;
  const tokens = (belief?.holder.tokens ?? 0) + newTokens;
  // Other gateways' turns are no part of the map; where this one knows nothing, they are likely with the owners.
  const turnBytes = upToDate || lastTurn === undefined ? 0 : (boundaries[lastTurn]?.bytes ?? 0);
  const share = settings.ownerBelief[ownerRank] ?? 0;
  const hopedTokens = share * Math.max(0, turnBytes - heldBytes) * tokensPerByte;
  return { tokens, uncachedTokens: newTokens - hopedTokens, belief: belief?.holder };
}
