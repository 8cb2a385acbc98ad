import { headOf, type PromptShape } from "../../boundary-hashes.ts";
import type { Candidates } from "../../candidates.ts";
import { type EndpointView, requestsOn } from "../../endpoint-view.ts";
import type { HeldPrefixes } from "../../held-prefixes.ts";
import { hashShare, ownersOf } from "../../rendezvous.ts";
import { type HeldPart, type HeldParts, heldParts } from "./held-parts.ts";
import type { Holder, PlacementMap } from "./placement-map.ts";
import { WORKING_SET_MS, type WorkingSets } from "./working-sets.ts";

/**
 * The number of times of the second owner's load that the first owner may have. It is another one for every
 * conversation, from `least` to `least` and `spread` together.
 */
const OWNER_TOLERANCE = { least: 1.1, spread: 1 };

/** The share of its room from which on a cache is full: a long prompt may take up the rest at once. */
const FULL_SHARE = 0.95;

/** The most that a working set is taken to be by a cache's retention, in sizes of the cache. */
const MAX_CROWD = 1.25;

/* The weights below did best on recorded sessions, by `npm run bench -- replay`. */

/** The number of endpoints up to which all of them are compared; of more, only the candidates are. */
const SCORE_ALL_UP_TO = 8;
/** The number of endpoints that are compared because they hold the longest part of the prompt. */
const HOLDER_CANDIDATES = 2;
/** The number of endpoints that are compared because they were drawn at random. */
const RANDOM_CANDIDATES = 4;
/** The number of endpoints that are compared because they own the conversation by rendezvous hashing. */
const OWNER_CANDIDATES = 2;
/**
 * The cost of a token to be prefilled anew beside one that waits already. It is above 1, as every later request waits for
 * it, too; at 1 a burst moves conversations from busy endpoints to others, where all of them is prefilled anew.
 */
const UNCACHED_WEIGHT = 2;
/** The further cost of a token that another endpoint holds, where caches evict what was used a moment ago. */
const EVICTION_WEIGHT = 60;
/**
 * The cost of a token of the conversations of the last five minutes on an endpoint, for a conversation of which it holds
 * less than half, where caches are full.
 */
const WORKING_SET_WEIGHT = 0.8;
/** The cost of a KV cache at one half, in seconds of prefill; it grows without bound towards a full one. */
const KV_COST_SECONDS = 0.15;
/** The cost of each request on an endpoint for a new one, in seconds of prefill. */
const REQUEST_COST_SECONDS = 0.5;
/**
 * The mean time of a request on its endpoint, in seconds, by which the mean number of requests there says how many come
 * while a prompt is prefilled. 10 and 25 come to much the same first tokens; 2.5 has more prefilled anew than that gains.
 */
const REQUEST_SECONDS = 25;
/** The worth, in seconds of prefill, of the first and the second owner for a conversation that this gateway has not met. */
const OWNER_WORTH_SECONDS = [5, 2];
/** The share of the earlier turns that the first and the second owner are taken to hold where another gateway placed them. */
const OWNER_BELIEF = [0.9, 0.3];

/** The request that an endpoint is picked for. */
export type PrefixRequest = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
};

/** What a pick by prefix affinity goes by, beside endpoints and request. */
export type PrefixContext = {
  /** The beliefs on which endpoints hold which prefixes, by what this gateway has sent where. */
  readonly placements: PlacementMap;
  /** What the endpoints tell of their caches. */
  readonly prefixes: HeldPrefixes;
  /** What earlier requests have taught. */
  readonly learned: Learned;
  /** Monotonic milliseconds of the pick. */
  readonly nowMs: number;
  /** Returns the share of its speed that an endpoint is trusted with while it warms up, above 0 and at most 1. */
  readonly shareOf: (endpoint: EndpointView) => number;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
};

/** What the requests of a model have taught so far. */
export type Learned = {
  /** The number of tokens to a byte of prompt; above 0. */
  readonly tokensPerByte: number;
  /** The number of tokens of an answer, on the average. */
  readonly answerTokens: number;
  /** The likelihood, 0 to 1, that a conversation which this gateway did not place was placed by another one. */
  readonly strangers: number;
  /** The conversations of late on each endpoint. */
  readonly workingSets: WorkingSets;
};

/** What a pick expects of its endpoint, to be held against what the engine then measures. */
export type Prediction = {
  /** The number of tokens of the whole prompt. */
  readonly tokens: number;
  /** The number of the prompt's tokens that are not in the endpoint's cache. */
  readonly uncachedTokens: number;
  /** The belief that the prediction rests on; undefined where there was none, and where the endpoint told. */
  readonly belief: Holder | undefined;
};

/** The endpoint that a pick by prefix affinity came to. */
export type PrefixPick = {
  /** The endpoint that the request goes to. */
  readonly endpoint: EndpointView;
  /** What the endpoint is expected to have to do for the request. */
  readonly prediction: Prediction;
  /** The endpoints that the pick compared, the picked one among them. */
  readonly compared: readonly EndpointView[];
};

/**
 * Picks the candidate that costs least: the seconds until it will have prefilled the prompt, what it costs others that it
 * does, and the time of the answer there. Candidates are the endpoints that hold most of the prompt, the owners of the
 * conversation, and some at random, who keep the others honest. Returns undefined for an empty list only.
 *
 * What endpoints tell of their caches counts first, what this gateway has sent them second. Owners come last: by them
 * gateways that share nothing agree on conversations of which none of them knows where they are. Its key is caller and
 * conversation head together: a key that all callers share does not gather them on one endpoint, nor does a head that
 * all conversations share.
 */
export function pickPrefixAffinity(
  endpoints: Candidates,
  request: PrefixRequest,
  context: PrefixContext,
): PrefixPick | undefined {
  const { prefixes, learned } = context;
  const held = heldParts(request.shape, context);
  const mayBeElsewhere = !held.upToDate && learned.strangers > 0;
  // Where all are compared, owners matter for what other gateways may have placed alone.
  const owners = mayBeElsewhere || endpoints.all.length > SCORE_ALL_UP_TO ? likelyOwners(endpoints, request) : [];
  const compared = candidatesOf(endpoints, held.byAddress, owners, context);
  const answerSeconds = answerTimes(compared, context);
  const predictions = compared.map((endpoint) => {
    // Another gateway's turns are no part of the map; where nobody knows anything, they are likely with the owners.
    const hope = held.upToDate || prefixes.fillOf(endpoint.address) ? 0 : learned.strangers;
    const rank = owners.indexOf(endpoint);
    const prediction = predict(endpoint, request.shape, held, hope * (OWNER_BELIEF[rank] ?? 0), context);
    return { endpoint, prediction, worthSeconds: hope * (OWNER_WORTH_SECONDS[rank] ?? 0) };
  });
  const least = Math.min(...predictions.map(({ prediction }) => prediction.uncachedTokens));
  const scarcity = scarcityAmong(compared, context);
  let best: (Omit<PrefixPick, "compared"> & { readonly seconds: number }) | undefined;
  for (const [index, { endpoint, prediction, worthSeconds }] of predictions.entries()) {
    const work = {
      prediction,
      least,
      scarcity,
      headTokens: (request.shape.boundaries[0]?.bytes ?? 0) * learned.tokensPerByte,
    };
    const seconds = costSeconds(endpoint, work, context) + (answerSeconds[index] ?? 0) - worthSeconds;
    if (!best || seconds < best.seconds) best = { endpoint, prediction, seconds };
  }
  return best && { endpoint: best.endpoint, prediction: best.prediction, compared };
}

/** What an endpoint would have to do for a request, beside what others would. */
type PrefixWork = {
  readonly prediction: Prediction;
  /** The fewest tokens that any of the compared endpoints would have to prefill. */
  readonly least: number;
  /** How scarce room is in the caches, 0 to 1. */
  readonly scarcity: number;
  /** The tokens of the head, which other conversations may share. */
  readonly headTokens: number;
};

/** Returns what it costs this request and others, in seconds, that an endpoint prefills the prompt. */
function costSeconds(
  endpoint: EndpointView,
  { prediction: { tokens, uncachedTokens }, least, scarcity, headTokens }: PrefixWork,
  context: PrefixContext,
): number {
  const { shareOf } = context;
  // What another one holds, of which there would be two copies.
  const copied = uncachedTokens - least;
  // Wherever a conversation is prefilled it stays, and wants room for its coming turns.
  const crowd = uncachedTokens > tokens / 2 ? crowdTokens(endpoint, context) : 0;
  const weighed =
    uncachedTokens +
    // Later conversations will find the head here, too.
    (UNCACHED_WEIGHT - 1) * Math.max(0, copied - headTokens) +
    scarcity * (EVICTION_WEIGHT * copied + WORKING_SET_WEIGHT * crowd);
  const speed = endpoint.prefillTokensPerSecond * shareOf(endpoint);
  return (
    (endpoint.outstandingPrefillTokens + weighed) / speed +
    (KV_COST_SECONDS * endpoint.kvUse) / Math.max(1 - endpoint.kvUse, 0.001) +
    REQUEST_COST_SECONDS * requestsOn(endpoint) +
    // Without room to spare it matters most where there is some.
    Math.max(0, 1 - 2 * scarcity) * heldUpSeconds(endpoint, uncachedTokens / speed)
  );
}

/**
 * Returns for how long, in seconds, a prefill of `seconds` holds up those who come to the endpoint meanwhile: by Little's
 * law as many as are there on the average in so much of the time for which each is, and each for half of it.
 */
function heldUpSeconds({ meanRequests }: EndpointView, seconds: number): number {
  return (meanRequests / REQUEST_SECONDS) * (seconds ** 2 / 2);
}

/**
 * Returns how many tokens the recent conversations take up on an endpoint, for comparison with others. One of several
 * gateways has placed a part of them only; the retention of the cache accounts for the rest: the tokens that arrive in
 * that time fill the cache. Retention follows late, and where all caches are overfull it differs little, so that the
 * tokens this gateway placed count in any case.
 */
function crowdTokens(
  { address, gateways, retentionMs }: EndpointView,
  { learned, prefixes, nowMs }: PrefixContext,
): number {
  const seenTokens = learned.workingSets.tokensOn(address, nowMs);
  const totalTokens = prefixes.fillOf(address)?.totalTokens ?? 0;
  if (gateways <= 1 || totalTokens === 0 || retentionMs === undefined) return seenTokens;
  const toldTokens = totalTokens * Math.min(MAX_CROWD, WORKING_SET_MS / Math.max(1, retentionMs));
  return seenTokens + toldTokens * (1 - 1 / gateways);
}

/**
 * Returns how scarce room is in the caches of some endpoints, from 0, where none of them has to evict anything, towards 1,
 * where they evict what was used a moment ago.
 */
function scarcityAmong(endpoints: readonly EndpointView[], { prefixes }: PrefixContext): number {
  let sum = 0;
  for (const { address, retentionMs } of endpoints) {
    const { usedTokens, totalTokens } = prefixes.fillOf(address) ?? { usedTokens: 0, totalTokens: 0 };
    // A cache that has evicted something is full for good.
    const isFull = totalTokens === 0 ? retentionMs !== undefined : usedTokens > FULL_SHARE * totalTokens;
    if (isFull) sum += WORKING_SET_MS / (WORKING_SET_MS + (retentionMs ?? 0));
  }
  return sum / Math.max(1, endpoints.length);
}

/** Returns how long an answer takes on each endpoint, in seconds; one that is not known is taken to be like the others. */
function answerTimes(endpoints: readonly EndpointView[], { learned, shareOf }: PrefixContext): readonly number[] {
  const speeds = endpoints.map(({ decodeTokensPerSecond: speed }) => (speed && speed > 0 ? speed : undefined));
  const known = speeds.filter((speed) => speed !== undefined);
  const fastest = Math.max(...known);
  return endpoints.map((endpoint, index) =>
    known.length === 0 ? 0 : learned.answerTokens / ((speeds[index] ?? fastest) * shareOf(endpoint)),
  );
}

function likelyOwners(endpoints: Candidates, { shape, affinityKey }: PrefixRequest): readonly EndpointView[] {
  const key = `${affinityKey} ${headOf(shape)}`;
  return inOrderOfLoad(ownersOf(key, endpoints.all, OWNER_CANDIDATES), () => `${headOf(shape)} ${affinityKey}`);
}

/**
 * Returns the owners of a conversation, the first one to be preferred. By chance alone some endpoint owns many more
 * conversations than others. So the second owner comes first when the first one had the higher load for minutes; how
 * much higher is another for every conversation, and so they move one by one.
 */
function inOrderOfLoad(owners: readonly EndpointView[], keyOf: () => string): readonly EndpointView[] {
  const [first, second, ...others] = owners;
  if (!first || !second) return owners;
  // One request more or less is chance.
  const ratio = (first.meanRequests + 1) / (second.meanRequests + 1);
  if (ratio <= OWNER_TOLERANCE.least) return owners;
  if (ratio <= OWNER_TOLERANCE.least + OWNER_TOLERANCE.spread * hashShare(keyOf())) return owners;
  return [second, first, ...others];
}

function candidatesOf(
  endpoints: Candidates,
  held: ReadonlyMap<string, HeldPart>,
  owners: readonly EndpointView[],
  { random }: PrefixContext,
): readonly EndpointView[] {
  const { all } = endpoints;
  if (all.length <= SCORE_ALL_UP_TO) return all;
  const bytesAt = ({ address }: EndpointView) => held.get(address)?.bytes ?? 0;
  const holders: EndpointView[] = [];
  for (const address of held.keys()) {
    const holder = endpoints.get(address);
    if (holder) holders.push(holder);
  }
  // Of equals the less busy ones.
  holders.sort((a, b) => bytesAt(b) - bytesAt(a) || requestsOn(a) - requestsOn(b));
  const candidates = holders.slice(0, HOLDER_CANDIDATES);
  const add = (endpoint: EndpointView | undefined) => {
    if (endpoint && !candidates.includes(endpoint)) candidates.push(endpoint);
  };
  for (const owner of owners) add(owner);
  for (let draw = 0; draw < RANDOM_CANDIDATES; draw += 1) add(all[Math.floor(random() * all.length)]);
  return candidates;
}

function predict(
  { address, evictedBeforeMs }: EndpointView,
  { boundaries, lastTurn }: PromptShape,
  { byAddress }: HeldParts,
  hopedShare: number,
  { learned: { tokensPerByte } }: PrefixContext,
): Prediction {
  const bytes = boundaries.at(-1)?.bytes ?? 0;
  const believed = byAddress.get(address);
  // What nobody has used since what the cache has evicted is gone with it.
  const isGone = believed?.belief && evictedBeforeMs !== undefined && believed.belief.usedAtMs < evictedBeforeMs;
  const part = isGone ? undefined : believed;
  const heldBytes = part?.bytes ?? 0;
  const newTokens = (bytes - heldBytes) * tokensPerByte;
  const turnBytes = lastTurn === undefined ? 0 : (boundaries[lastTurn]?.bytes ?? 0);
  const hopedTokens = hopedShare * Math.max(0, turnBytes - heldBytes) * tokensPerByte;
  return {
    tokens: (part?.tokens ?? 0) + newTokens,
    uncachedTokens: newTokens - Math.max(part?.tailTokens ?? 0, hopedTokens),
    belief: part?.belief,
  };
}
