import { headOf, type PromptShape } from "../../boundary-hashes.ts";
import type { Candidates } from "../../endpoint-set.ts";
import { type EndpointView, requestsOn } from "../../endpoint-view.ts";
import type { HeldPart, HeldParts, PrefixIndex } from "../../prefix-index.ts";
import { type PrefixLearning, WORKING_SET_MS } from "./prefix-learning.ts";

/** The load ratio up to which the first owner is preferred: by conversation from `least` to `least` + `spread`. */
const OWNER_TOLERANCE = { least: 1.1, spread: 1 };

/** The occupancy from which a cache counts as full: a long prompt may take the rest at once. */
const FULL_SHARE = 0.95;

/** The largest working set inferred from a cache's retention, in sizes of the cache. */
const MAX_CROWD = 1.25;

/* The weights below did best on recorded sessions, by `npm run bench -- replay`. */

/** The number of endpoints up to which all are scored; beyond it, only the candidates are. */
const SCORE_ALL_UP_TO = 8;
/** The number of candidates taken from the holders of the longest part of the prompt. */
const HOLDER_CANDIDATES = 2;
const RANDOM_CANDIDATES = 4;
/** The number of candidates taken from the conversation's owners by rendezvous hashing. */
const OWNER_CANDIDATES = 2;
/**
 * The cost of a token to prefill beside one already waiting. Above 1, as every later request waits for it, too; at 1 a
 * burst moves conversations from busy endpoints to others, where all of them is prefilled again.
 */
const UNCACHED_WEIGHT = 2;
/** The further cost of a token that another endpoint holds, where caches evict prefixes used a moment ago. */
const EVICTION_WEIGHT = 60;
/** The cost of a token of an endpoint's recent conversations, where caches are full and it holds less than half. */
const WORKING_SET_WEIGHT = 0.8;
/** The cost of a half-full KV cache, in seconds of prefill; it grows without bound towards a full one. */
const KV_COST_SECONDS = 0.15;
/** The cost of each request on an endpoint for a new one, in seconds of prefill. */
const REQUEST_COST_SECONDS = 0.5;
/** The time for loading a token from below the accelerator's memory, as a share of that for prefilling it. */
const LOAD_SHARE = 0.1;
/**
 * The mean time of a request on its endpoint, in seconds; with the mean number of requests it gives the arrivals during
 * a prefill. 10 and 25 yield nearly the same time to first token; 2.5 prefills more than it gains.
 */
const REQUEST_SECONDS = 25;
/** The preference, in seconds of prefill, for the first and the second owner of a conversation new to this gateway. */
const OWNER_WORTH_SECONDS = [5, 2];
/** The assumed share of earlier turns on the first and the second owner, where another gateway placed them. */
const OWNER_BELIEF = [0.9, 0.3];

/**
 * The preference, in seconds of prefill, of a sub-agent for the endpoint of its turn before. Sub-agents of one parent
 * start together and are short: the load that they make there is gone before a move pays.
 */
const SUB_AGENT_STAY_SECONDS = 3;

export type PrefixRequest = {
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
  /** Default: false. */
  readonly ofSubAgent?: boolean;
};

export type PrefixContext = {
  readonly index: PrefixIndex;
  readonly learned: Pick<PrefixLearning, "tokensPerByte" | "answerTokens" | "strangers" | "workingSets">;
  readonly nowMs: number;
  /** Returns an endpoint's slow-start share of its speed, above 0 and at most 1. */
  readonly shareOf: (endpoint: EndpointView) => number;
  readonly random: () => number;
};

/** The pick's expectation of its endpoint, compared later with the engine's measurement. */
export type Prediction = {
  readonly tokens: number;
  /** The tokens known or believed in the endpoint's cache. */
  readonly cachedTokens: number;
  /** The tokens to prefill there, those to load by their share; fewer where another gateway may have sent turns. */
  readonly uncachedTokens: number;
  /** The part of the prompt that the prediction rests on; undefined where the endpoint holds none. */
  readonly part: HeldPart | undefined;
};

export type PrefixPick = {
  readonly endpoint: EndpointView;
  readonly prediction: Prediction;
  readonly compared: readonly EndpointView[];
};

/**
 * Picks the candidate of the least cost: the seconds until the prompt is prefilled there, the cost of that to other
 * requests, and the time of the answer. Candidates are the holders of most of the prompt, the owners of the
 * conversation, and some at random, which correct the others. Returns undefined only for an empty list.
 *
 * Reported caches count first, prompts sent by this gateway second. Owners come last: by them gateways without shared
 * state agree on conversations whose place none of them has seen. The owner's key is caller and conversation head
 * together: neither a key that all callers share nor a head that all conversations share gathers requests on one
 * endpoint.
 */
export function pickPrefixAffinity(
  endpoints: Candidates,
  request: PrefixRequest,
  context: PrefixContext,
): PrefixPick | undefined {
  const { index: prefixes, learned, nowMs } = context;
  const { all } = endpoints;
  const held = prefixes.held(request.shape, nowMs, learned.tokensPerByte);
  const [only] = all;
  // Without a choice only the expectation counts: the one endpoint owns every conversation.
  if (only && all.length === 1)
    return { endpoint: only, prediction: predict(only, 0, request.shape, held, context).prediction, compared: all };
  const mayBeElsewhere = !held.upToDate && learned.strangers > 0;
  // Where all are scored, owners matter only for conversations that another gateway may have placed.
  const owners = mayBeElsewhere || all.length > SCORE_ALL_UP_TO ? likelyOwners(endpoints, request) : [];
  const compared = candidatesOf(endpoints, held.byAddress, owners, context);
  const answerSeconds = answerTimes(compared, context);
  const predictions = compared.map((endpoint) =>
    predict(endpoint, owners.indexOf(endpoint), request.shape, held, context),
  );
  const turnBytes = request.ofSubAgent ? lastTurnBytes(request.shape) : 0;
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
    const stays = turnBytes > 0 && (prediction.part?.bytes ?? 0) >= turnBytes;
    const worth = worthSeconds + (stays ? SUB_AGENT_STAY_SECONDS : 0);
    const seconds = costSeconds(endpoint, work, context) + (answerSeconds[index] ?? 0) - worth;
    if (!best || seconds < best.seconds) best = { endpoint, prediction, seconds };
  }
  return best && { endpoint: best.endpoint, prediction: best.prediction, compared };
}

/** The work of an endpoint for a request, beside that of the others. */
type PrefixWork = {
  readonly prediction: Prediction;
  /** The fewest tokens that any scored endpoint would have to prefill. */
  readonly least: number;
  /** How scarce room is in the caches, 0 to 1. */
  readonly scarcity: number;
  /** The tokens of the head, which other conversations may share. */
  readonly headTokens: number;
};

/** Returns the cost in seconds, to this request and to others, of prefilling the prompt on an endpoint. */
function costSeconds(
  endpoint: EndpointView,
  { prediction: { tokens, uncachedTokens }, least, scarcity, headTokens }: PrefixWork,
  context: PrefixContext,
): number {
  const { shareOf } = context;
  // The tokens that another endpoint holds, of which there would be two copies.
  const copied = uncachedTokens - least;
  // A conversation stays where it is prefilled, and needs room for its later turns.
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
    // It matters most where caches have room to spare.
    Math.max(0, 1 - 2 * scarcity) * heldUpSeconds(endpoint, uncachedTokens / speed)
  );
}

/**
 * Returns for how long, in seconds, a prefill of `seconds` delays the requests that arrive meanwhile: by Little's law
 * the mean number of requests scaled by the prefill's share of their time, each delayed by half of it.
 */
function heldUpSeconds({ meanRequests }: EndpointView, seconds: number): number {
  return (meanRequests / REQUEST_SECONDS) * (seconds ** 2 / 2);
}

/**
 * Returns the number of tokens that recent conversations occupy on an endpoint, for comparison with others. One of
 * several gateways places only a part of them; the retention of the cache accounts for the rest: the tokens that arrive
 * in that time fill the cache. Retention lags, and differs little where all caches are overfull, so that the tokens
 * this gateway placed always count.
 */
function crowdTokens(
  { address, gateways, retentionMs }: EndpointView,
  { learned, index, nowMs }: PrefixContext,
): number {
  const seenTokens = learned.workingSets.tokensOn(address, nowMs);
  const totalTokens = index.announced.fillOf(address)?.totalTokens ?? 0;
  if (gateways <= 1 || totalTokens === 0 || retentionMs === undefined) return seenTokens;
  const arrivingTokens = totalTokens * Math.min(MAX_CROWD, WORKING_SET_MS / Math.max(1, retentionMs));
  return seenTokens + arrivingTokens * (1 - 1 / gateways);
}

/**
 * Returns how scarce room is in the caches of some endpoints, from 0, where none has to evict, towards 1, where they
 * evict prefixes used a moment ago.
 */
function scarcityAmong(endpoints: readonly EndpointView[], { index: { announced } }: PrefixContext): number {
  let sum = 0;
  for (const { address, retentionMs } of endpoints) {
    const { usedTokens, totalTokens } = announced.fillOf(address) ?? { usedTokens: 0, totalTokens: 0 };
    // A cache that has evicted something stays full.
    const isFull = totalTokens === 0 ? retentionMs !== undefined : usedTokens > FULL_SHARE * totalTokens;
    if (isFull) sum += WORKING_SET_MS / (WORKING_SET_MS + (retentionMs ?? 0));
  }
  return sum / Math.max(1, endpoints.length);
}

/** Returns the seconds of an answer on each endpoint; one without a measured speed counts as the fastest. */
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
 * Returns the owners of a conversation, the preferred one first. By chance some endpoint owns many more conversations
 * than others, so the second owner comes first when the first one's load was higher for minutes. The required ratio
 * differs by conversation, so that they move one by one.
 */
function inOrderOfLoad(owners: readonly EndpointView[], keyOf: () => string): readonly EndpointView[] {
  const [first, second, ...others] = owners;
  if (!first || !second) return owners;
  // A difference of one request is chance.
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
  // Of equal holders, the less busy first.
  holders.sort((a, b) => bytesAt(b) - bytesAt(a) || requestsOn(a) - requestsOn(b));
  const candidates = holders.slice(0, HOLDER_CANDIDATES);
  const add = (endpoint: EndpointView | undefined) => {
    if (endpoint && !candidates.includes(endpoint)) candidates.push(endpoint);
  };
  for (const owner of owners) add(owner);
  for (let draw = 0; draw < RANDOM_CANDIDATES; draw += 1) add(all[Math.floor(random() * all.length)]);
  return candidates;
}

/** Returns the bytes of the prompt that an earlier request ended with; 0 for a first turn. */
function lastTurnBytes({ boundaries, lastTurn }: PromptShape): number {
  return lastTurn === undefined ? 0 : (boundaries[lastTurn]?.bytes ?? 0);
}

/** `rank` is the position of the endpoint among the owners of the conversation, -1 where it is none. */
function predict(
  endpoint: EndpointView,
  rank: number,
  { boundaries, lastTurn }: PromptShape,
  { byAddress, upToDate }: HeldParts,
  { index, learned: { tokensPerByte, strangers } }: PrefixContext,
) {
  const { address, evictedBeforeMs } = endpoint;
  // Another gateway's turns are not in the map; without reports, they are likely on the owners.
  const hope = upToDate || index.announced.fillOf(address) ? 0 : strangers;
  const bytes = boundaries.at(-1)?.bytes ?? 0;
  const held = byAddress.get(address);
  // Prefixes last used before the evicted ones are evicted with them.
  const isGone = evictedBeforeMs !== undefined && (held?.usedAtMs ?? Infinity) < evictedBeforeMs;
  const part = isGone ? undefined : held;
  const heldBytes = part?.bytes ?? 0;
  const newTokens = (bytes - heldBytes) * tokensPerByte;
  const turnBytes = lastTurnBytes({ boundaries, lastTurn });
  const hopedTokens = hope * (OWNER_BELIEF[rank] ?? 0) * Math.max(0, turnBytes - heldBytes) * tokensPerByte;
  const prediction: Prediction = {
    tokens: (part?.tokens ?? 0) + newTokens,
    cachedTokens: (part?.tokens ?? 0) + (part?.tailTokens ?? 0),
    uncachedTokens:
      newTokens - Math.max(part?.usableTailTokens ?? 0, hopedTokens) + LOAD_SHARE * (part?.lowerTokens ?? 0),
    part,
  };
  return { endpoint, prediction, worthSeconds: hope * (OWNER_WORTH_SECONDS[rank] ?? 0) };
}

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
