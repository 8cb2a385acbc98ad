import { headOf, type PromptShape } from "../../boundary-hashes.ts";
import type { Candidates } from "../../endpoint-set.ts";
import { type EndpointView, requestsOn, slowStartShare } from "../../endpoint-view.ts";
import type { HeldPart, PrefixIndex } from "../../prefix-index.ts";
import type { Route } from "../../route.ts";
import { type PrefixLearning, RECENT_MS } from "./prefix-learning.ts";
import { ownerOf } from "./rendezvous.ts";

/*
 * The constants were chosen by replays of recorded sessions (`npm run bench -- replay`), with several seeds. A change of
 * one is judged there, by hits and by the time to the first token, and by `idle-fleet.test.ts`.
 */

/**
 * The price of a token that evicts one used a moment ago, in tokens to prefill. Far above 1: a copy of a conversation
 * evicts another one, whose next turn then makes the next copy.
 */
const EVICTION_PRICE = 30;
/** The seconds by which each request on an endpoint delays a new one, as it decodes and prefills beside it. */
const REQUEST_SECONDS = 0.5;
/**
 * The seconds that a new conversation may lose to begin on an endpoint with none, not one with the mean of the recent
 * ones: the prefill of a usual head. Agents wait for tools most of the time, when they are no load.
 */
const SPREAD_SECONDS = 2;
/** The ratio up to which measured speeds of decoding are those of equal machines: measured on few answers, they differ. */
const EQUAL_SPEEDS = 2;
/** The time for loading a token from below the accelerator's memory, as a share of that for prefilling it. */
const LOAD_SHARE = 0.1;

/** Less than any other cost, in seconds: of equal endpoints, gateways that share nothing would all take the first. */
const TIE_SECONDS = 1e-6;
/** The number of endpoints up to which all are scored; of more, the best holders, the owner and random ones. */
const MOST_SCORED = 8;
/** The best holders among them: the second one counts where the first is busy. */
const HOLDERS_SCORED = 2;

export type PrefixContext = {
  readonly index: PrefixIndex;
  readonly learned: Pick<PrefixLearning, "tokensPerByte" | "answerTokens" | "othersOn">;
  readonly nowMs: number;
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

export type PrefixPick = { readonly endpoint: EndpointView; readonly prediction: Prediction };

/**
 * Picks the candidate of the least cost: the seconds until the prompt is prefilled and answered there, and the price of
 * what it evicts. A conversation stays where most of it is cached; a new one goes where the cache has space and few other
 * conversations are. Returns undefined only for an empty list.
 *
 *     seconds = (tokens ahead + tokens to read + tokens that another endpoint has) / prefill speed
 *             + 30 * evicted tokens / mean prefill speed + 0.5 * requests there
 *             + for a new conversation: up to 2 s for others there, and a slower answer
 *
 * A turn of 42,000 tokens, of which A has announced 40,000, at 1,000 tokens a second: A costs 2 s, an idle B with an
 * empty cache 42 + 40 = 82 s, the second term for the copy. So the turn goes to B only when A has more than 80 s of work
 * ahead.
 *
 * Where endpoints do not announce what they hold, gateways without shared state agree on the owner of a conversation.
 */
export function pickPrefixAffinity(
  endpoints: Candidates,
  { shape, affinityKey }: Pick<Route, "shape" | "affinityKey">,
  { index, learned, nowMs, random }: PrefixContext,
): PrefixPick | undefined {
  const { byAddress, upToDate } = index.held(shape, nowMs, learned.tokensPerByte);
  const conversation = conversationOf(shape, affinityKey);
  const owner = upToDate ? undefined : ownerOf(conversation, endpoints.all);
  // With several gateways, another one has likely sent the earlier turns of an unknown conversation to its owner.
  const mayOwn = owner && owner.gateways !== 1 && !index.announced.fillOf(owner.address);
  const scored = [];
  let [sumOfOthers, sumOfSpeeds, least, fastest] = [0, 0, Number.POSITIVE_INFINITY, 0];
  for (const endpoint of candidatesOf(endpoints, byAddress, owner, random)) {
    const isOwner = mayOwn === true && endpoint === owner;
    const held = byAddress.get(endpoint.address);
    const others = upToDate ? 0 : learned.othersOn(endpoint.address, conversation, nowMs);
    const prediction = predict(endpoint, held, shape, learned.tokensPerByte, isOwner);
    scored.push({ endpoint, isOwner, others, prediction });
    sumOfOthers += others;
    sumOfSpeeds += endpoint.prefillTokensPerSecond;
    least = Math.min(least, prediction.uncachedTokens);
    fastest = Math.max(fastest, endpoint.decodeTokensPerSecond ?? 0);
  }
  const meanOthers = sumOfOthers / scored.length;
  const meanSpeed = sumOfSpeeds / scored.length;
  let best: (PrefixPick & { readonly seconds: number }) | undefined;
  for (const { endpoint, isOwner, others, prediction } of scored) {
    const { uncachedTokens } = prediction;
    // Other gateways would look for a new conversation at its owner, and prefill it there again.
    const prefill = isOwner && shape.lastTurn === undefined ? 0 : uncachedTokens;
    // The part that another endpoint holds also delays later requests, and takes space a second time. Of a new
    // conversation all needs space.
    const copied = upToDate ? uncachedTokens - least : 0;
    const taken = upToDate ? copied : uncachedTokens;
    // Where a conversation takes a place of its own, it evicts another one whatever they share.
    const isWhole = endpoint.keptConversations > 0 && taken > 0;
    const evicted = isWhole
      ? evictedTokens(endpoint, index, prediction.tokens, prediction.tokens)
      : evictedTokens(endpoint, index, taken, uncachedTokens);
    const tokens = endpoint.outstandingPrefillTokens + prefill + copied;
    // A known conversation does not move for it: a speed is measured on few answers, and falls with other load.
    const answer = upToDate ? 0 : learned.answerTokens * slowness(endpoint.decodeTokensPerSecond, fastest);
    const work = (tokens / endpoint.prefillTokensPerSecond + answer) / slowStartShare(endpoint, nowMs);
    const spread = isOwner ? 0 : SPREAD_SECONDS * (others / (1 + meanOthers));
    // At the mean speed: by measured ones, of equal full endpoints the luckiest would get all new conversations.
    const price = (EVICTION_PRICE * evicted) / meanSpeed;
    const seconds = work + price + REQUEST_SECONDS * requestsOn(endpoint) + spread + TIE_SECONDS * random();
    if (!best || seconds < best.seconds) best = { endpoint, prediction, seconds };
  }
  return best && { endpoint: best.endpoint, prediction: best.prediction };
}

/** Returns the seconds per token that an endpoint decodes more slowly than one of its kind as busy as the fastest might. */
function slowness(speed = 0, fastest: number): number {
  return speed > 0 ? Math.max(0, 1 / speed - EQUAL_SPEEDS / fastest) : 0;
}

/** Returns a key that is constant through a conversation, and differs between those of one caller or session. */
export function conversationOf(shape: PromptShape, affinityKey: string): string {
  return `${affinityKey} ${headOf(shape)}`;
}

/**
 * Returns how many of `tokens` evict others on an endpoint that adds `added` with them. Those count less the longer the
 * cache keeps unused prefixes.
 */
function evictedTokens(
  { address, retentionMs }: EndpointView,
  { announced }: PrefixIndex,
  tokens: number,
  added: number,
): number {
  const { usedTokens = 0, totalTokens = 0 } = announced.fillOf(address) ?? {};
  // A cache of unknown size that has evicted something is full.
  const unknown = retentionMs === undefined ? Number.POSITIVE_INFINITY : 0;
  const freeTokens = totalTokens > 0 ? totalTokens - usedTokens : unknown;
  const evicted = Math.min(tokens, Math.max(0, added - freeTokens));
  // A prefix that the next turn will want is younger than `RECENT_MS`; a cache that keeps them for long evicts others.
  return (evicted * RECENT_MS) / (RECENT_MS + (retentionMs ?? 0));
}

/** Returns the endpoints to score, a bounded number of any fleet: the best holders, the owner, and random others. */
function candidatesOf(
  endpoints: Candidates,
  held: ReadonlyMap<string, HeldPart>,
  owner: EndpointView | undefined,
  random: () => number,
): readonly EndpointView[] {
  const { all } = endpoints;
  if (all.length <= MOST_SCORED) return all;
  const bytesAt = ({ address }: EndpointView) => held.get(address)?.bytes ?? 0;
  const holders = [...held.keys()].flatMap((address) => endpoints.get(address) ?? []);
  // Of equal holders, the less busy first.
  holders.sort((a, b) => bytesAt(b) - bytesAt(a) || requestsOn(a) - requestsOn(b));
  const candidates = new Set([...holders.slice(0, HOLDERS_SCORED), ...(owner ? [owner] : [])]);
  for (let draw = candidates.size; draw < MOST_SCORED; draw += 1) {
    const drawn = all[Math.floor(random() * all.length)];
    if (drawn) candidates.add(drawn);
  }
  return [...candidates];
}

/**
 * Returns the expectation of one endpoint: it reads the prompt behind the held part, less the answer that is cached there,
 * and loads the tokens below the accelerator's memory. To the owner, another gateway has likely sent the last turn.
 */
function predict(
  { evictedBeforeMs = Number.NEGATIVE_INFINITY }: EndpointView,
  held: HeldPart | undefined,
  { boundaries, lastTurn }: PromptShape,
  tokensPerByte: number,
  isOwner: boolean,
): Prediction {
  // Prefixes last used before the evicted ones are evicted with them.
  const part = (held?.usedAtMs ?? Number.POSITIVE_INFINITY) < evictedBeforeMs ? undefined : held;
  const { bytes = 0, tokens = 0, tailTokens = 0, usableTailTokens = 0, lowerTokens = 0 } = part ?? {};
  const newTokens = ((boundaries.at(-1)?.bytes ?? 0) - bytes) * tokensPerByte;
  const earlierBytes = isOwner && lastTurn !== undefined ? (boundaries[lastTurn]?.bytes ?? 0) - bytes : 0;
  const behind = Math.max(usableTailTokens, earlierBytes * tokensPerByte);
  const uncachedTokens = newTokens - behind + LOAD_SHARE * lowerTokens;
  return { tokens: tokens + newTokens, cachedTokens: tokens + tailTokens, uncachedTokens, part };
}
