import { type Boundary, headOf, type PromptShape, promptBytes } from "../load-balancing/boundary-hashes.ts";
import type { HeldPrefixes } from "../load-balancing/held-prefixes.ts";
import { BoundedMap } from "./bounded-map.ts";

/** The most prefixes whose last use is remembered, some 200 bytes each. */
const MAX_PLACES = 100_000;
/** The most conversations whose last prompt is remembered, up to 10 KB each. */
const MAX_CONVERSATIONS = 5_000;
/** The boundaries at the end of a conversation's last prompt by which it is found what was changed in it. */
const COMPARED_TAIL = 62;
/** The boundaries at its beginning by whose sizes it is found that a prompt is the same behind another system part. */
const COMPARED_BEGIN = 8;
/**
 * The boundaries at the beginning and at the end of a prompt whose last use is remembered: those in between were at the
 * end of an earlier turn's.
 */
const USED = { head: 2, tail: 8 };
/** The loss below which nothing needs explaining: so many tokens, and that share of the prompt. */
const TOLERATED = { tokens: 64, share: 0.01 };

/** The tokens to a byte of a prompt that nobody has measured. */
const TOKENS_PER_BYTE = 0.25;

/**
 * Why a prompt was not in the cache as far as it might have been. `hit`: it was; `new`: nobody could have it, as it
 * begins a conversation. `client_changed`: the client changed a message that was sent before; `compaction`: it sent a
 * much shorter history instead. `evicted`: the endpoint pushed it out; `moved`: another endpoint has it, which was too
 * busy or full; `belief_expired`: another endpoint had it, so long ago that it was not counted on; `node_restarted`: the
 * endpoint that had it has left or began anew; `other_gateway`: the turn before this one came by another gateway.
 */
export type CacheReason =
  | "hit"
  | "new"
  | "client_changed"
  | "compaction"
  | "evicted"
  | "moved"
  | "belief_expired"
  | "node_restarted"
  | "other_gateway";

/** What was expected in the cache for a request, what was there, and why it was less than it might have been. */
export type CacheNote = {
  /** The tokens of the prompt that were expected in the cache of the endpoint. */
  readonly expectedTokens: number;
  /** The tokens of the prompt that were in the cache, as the engine measured. */
  readonly cachedTokens: number;
  /** The tokens that might have been in the cache and were not; 0 where nothing needs explaining. */
  readonly lostTokens: number;
  /** The one reason: that of the most lost tokens. */
  readonly reason: CacheReason;
  /**
   * The number of the first boundary that is another one than in the prompt before: 0 is the tools and leading system
   * messages, n the nth message behind them; of a change in the middle of a long prompt, the last that it can be.
   * Undefined for every reason that is not the client's.
   */
  readonly changedMessage: number | undefined;
};

/** What a ledger asks of the cluster whose requests it follows. */
export type CacheLedgerParts = {
  /** What endpoints tell of their caches. */
  readonly prefixes: HeldPrefixes;
  /**
   * Returns what changes whenever an endpoint begins with an empty cache, as the time at which its node started;
   * undefined for one that is not there.
   */
  readonly lifeOf: (address: string) => number | undefined;
  /** Returns for how long a prefix is believed to stay on an endpoint that does not tell, in milliseconds. */
  readonly believedMs: (address: string) => number;
};

/** The request that is followed. */
export type LedgerRequest = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
};

/** Where and when a prefix was last used. */
type Use = {
  readonly address: string;
  readonly life: number | undefined;
  readonly atMs: number;
  readonly tokens: number;
};

/** The last prompt of a conversation. */
type LastPrompt = {
  /** The last boundaries, and the index of the first of them. */
  readonly tail: readonly Boundary[];
  readonly from: number;
  /** The first boundaries. */
  readonly begin: readonly Boundary[];
};

/** What is known of a request when it is sent. */
type SentFacts = {
  readonly shape: PromptShape;
  /** What may turn out to have been lost. */
  readonly losses: readonly Loss[];
  /** The tokens that are expected in the cache. */
  readonly expected: number;
  /** Whether the request begins a conversation of which nothing was seen before. */
  readonly isNew: boolean;
};

/** Why tokens were lost, and how many by the size of what was lost. */
type Loss = {
  readonly reason: CacheReason;
  readonly upToBytes: number;
  readonly fromBytes: number | undefined;
  /** The tokens before what was lost, where they are known better than by bytes. */
  readonly fromTokens?: number | undefined;
  readonly upToTokens: number | undefined;
  readonly changedMessage?: number;
};

/**
 * Explains for each request of a cluster what its endpoint's cache did not have. It knows digests only, is bounded, and
 * costs a few looks into maps for each request.
 */
export class CacheLedger {
  readonly #parts: CacheLedgerParts;
  readonly #uses = new BoundedMap<string, Use>(MAX_PLACES);
  readonly #conversations = new BoundedMap<string, LastPrompt>(MAX_CONVERSATIONS);
  /** The newest prompt by affinity key and system part: a conversation that is summarised begins with another message. */
  readonly #newestOfAgent = new BoundedMap<string, LastPrompt>(MAX_CONVERSATIONS);
  /** The newest prompt by affinity key: with other tools or another system message nothing of a prompt is the same. */
  readonly #newestOfKey = new BoundedMap<string, LastPrompt>(MAX_CONVERSATIONS);

  /** Begins without a memory. */
  constructor(parts: CacheLedgerParts) {
    this.#parts = parts;
  }

  /**
   * Notes that a request goes to the endpoint at `address` at the monotonic time `nowMs`. Returns what explains its
   * cached tokens, to be asked once when the engine has told them.
   */
  sent(request: LedgerRequest, address: string, nowMs: number): SentRequest {
    const { shape } = request;
    const seen = this.#deepestUse(shape);
    const losses = [...this.#lostToServers(shape, seen, address, nowMs), ...this.#lostToOthers(request, seen?.index)];
    const expected = this.#expected(shape, address, seen?.use, nowMs);
    return new SentRequest({ shape, losses, expected, isNew: !seen && shape.lastTurn === undefined }, (inputTokens) =>
      this.#remember(request, { address, life: this.#parts.lifeOf(address), atMs: nowMs, tokens: inputTokens }),
    );
  }

  /** Returns the longest part of a prompt that some endpoint was sent before. */
  #deepestUse({ boundaries }: PromptShape): { readonly index: number; readonly use: Use } | undefined {
    for (let index = boundaries.length - 1; index >= 0; index -= 1) {
      if (index >= USED.head && index < boundaries.length - COMPARED_TAIL) index = USED.head - 1;
      const use = this.#uses.get(boundaries[index]?.hash ?? "");
      if (use) return { index, use };
    }
    return undefined;
  }

  #lostToServers(
    { boundaries }: PromptShape,
    seen: { readonly index: number; readonly use: Use } | undefined,
    address: string,
    nowMs: number,
  ): readonly Loss[] {
    const boundary = boundaries[seen?.index ?? 0];
    if (!seen || !boundary) return [];
    const { use } = seen;
    const { prefixes, lifeOf, believedMs } = this.#parts;
    const loss = { upToBytes: boundary.bytes, fromBytes: undefined, upToTokens: use.tokens };
    if (lifeOf(use.address) !== use.life) return [{ ...loss, reason: "node_restarted" }];
    const elsewhere = this.#heldElsewhere(boundaries, seen.index, address);
    // What is behind the part that another one holds, that one has evicted as well.
    const losses = elsewhere ? [elsewhere, { ...loss, fromTokens: elsewhere.upToTokens }] : [loss];
    if (elsewhere || use.address === address || prefixes.fillOf(use.address))
      return losses.map((one) => ({ reason: "evicted", ...one }));
    const isBelieved = nowMs - use.atMs < believedMs(use.address);
    return [{ ...loss, reason: isBelieved ? "moved" : "belief_expired" }];
  }

  /**
   * Returns the longest part of a prompt, up to the boundary at `lastIndex`, that another endpoint than the one at
   * `address` tells that it holds; undefined where the one at `address` tells that it holds as much itself.
   */
  #heldElsewhere(boundaries: readonly Boundary[], lastIndex: number, address: string): Loss | undefined {
    let upToBytes = boundaries[lastIndex]?.bytes ?? 0;
    for (let index = lastIndex; index >= 0; index -= 1) {
      let isHeldHere = false;
      for (const holder of this.#parts.prefixes.holders(boundaries[index]?.hash ?? "")) {
        if (holder.address !== address) {
          const upToTokens = holder.tokens + holder.tailTokens;
          return { reason: "moved", upToBytes, fromBytes: undefined, upToTokens };
        }
        isHeldHere = true;
      }
      if (isHeldHere) return undefined;
      // What an endpoint holds behind a digest ends at the next one.
      upToBytes = boundaries[index]?.bytes ?? 0;
    }
    return undefined;
  }

  /** Returns what of the conversation's last prompt is not there again, and what of its last turn never came by here. */
  #lostToOthers(request: LedgerRequest, seenIndex: number | undefined): readonly Loss[] {
    const { shape } = request;
    const turn = shape.lastTurn;
    const changed = this.#changedIn(request);
    if (changed && !this.#wasSent(shape, changed.changedMessage ?? 0, seenIndex)) return [changed];
    if (turn === undefined || (seenIndex ?? -1) >= turn) return [];
    const fromBytes = seenIndex === undefined ? 0 : (shape.boundaries[seenIndex]?.bytes ?? 0);
    return [
      { reason: "other_gateway", upToBytes: shape.boundaries[turn]?.bytes ?? 0, fromBytes, upToTokens: undefined },
    ];
  }

  /**
   * Returns whether an earlier prompt had the message that is another one than in the last prompt: then this prompt goes on
   * from that one, or it came by another gateway like this.
   */
  #wasSent({ boundaries, lastTurn = -1 }: PromptShape, message: number, seenIndex = -1): boolean {
    if (seenIndex >= message) return true;
    const [holder] = lastTurn < message ? [] : this.#parts.prefixes.holders(boundaries[lastTurn]?.hash ?? "");
    return holder !== undefined;
  }

  #changedIn(request: LedgerRequest): Loss | undefined {
    const { shape } = request;
    const last = this.#conversations.get(conversationOf(request));
    if (last) return changeOf(last, shape);
    const ofAgent = this.#newestOfAgent.get(agentOf(request));
    if (ofAgent) {
      const changed = changeOf(ofAgent, shape);
      // What is no summary and goes on with nothing may be another conversation of the same agent.
      return shape.lastTurn === undefined && changed?.reason !== "compaction" ? undefined : changed;
    }
    const ofKey = this.#newestOfKey.get(request.affinityKey);
    return ofKey && isOfSameSizes(ofKey, shape) ? changeOf(ofKey, shape) : undefined;
  }

  #expected({ boundaries }: PromptShape, address: string, use: Use | undefined, nowMs: number): number {
    const { prefixes, lifeOf, believedMs } = this.#parts;
    if (!prefixes.fillOf(address)) {
      const isThere = use?.address === address && use.life === lifeOf(address);
      return use && isThere && nowMs - use.atMs < believedMs(address) ? use.tokens : 0;
    }
    for (let index = boundaries.length - 1; index >= 0; index -= 1) {
      for (const holder of prefixes.holders(boundaries[index]?.hash ?? ""))
        if (holder.address === address) return holder.tokens + holder.tailTokens;
    }
    return 0;
  }

  #remember(request: LedgerRequest, use: Use): void {
    const { boundaries } = request.shape;
    const bytes = promptBytes(request.shape);
    for (const [index, { hash, bytes: at }] of boundaries.entries()) {
      if (index >= USED.head && index < boundaries.length - USED.tail) continue;
      this.#uses.set(hash, { ...use, tokens: bytes > 0 ? Math.round((use.tokens * at) / bytes) : 0 });
    }
    const from = Math.max(0, boundaries.length - COMPARED_TAIL);
    const last = { tail: boundaries.slice(from), from, begin: boundaries.slice(0, COMPARED_BEGIN) };
    this.#conversations.set(conversationOf(request), last);
    this.#newestOfAgent.set(agentOf(request), last);
    this.#newestOfKey.set(request.affinityKey, last);
  }
}

/** Returns what of a conversation's last prompt is not in its next one; undefined where all of it is. */
function changeOf({ tail, from, begin }: LastPrompt, shape: PromptShape): Loss | undefined {
  const { boundaries } = shape;
  // As each digest is of all in front of it, one that is the same says that all before are.
  const same = tail.findLastIndex(({ hash }, index) => boundaries[from + index]?.hash === hash);
  const end = tail.at(-1);
  if (same === tail.length - 1 || !end) return undefined;
  const sameBegin = begin.findLastIndex(({ hash }, index) => boundaries[index]?.hash === hash);
  // Between the begin and the tail nothing is remembered: there the change is taken to be as late as it can be.
  const changedBefore = sameBegin === begin.length - 1 ? from : sameBegin + 1;
  return {
    reason: promptBytes(shape) < end.bytes / 2 ? "compaction" : "client_changed",
    upToBytes: end.bytes,
    fromBytes: (tail[same] ?? begin[sameBegin])?.bytes ?? 0,
    upToTokens: undefined,
    changedMessage: same >= 0 ? from + same + 1 : changedBefore,
  };
}

function conversationOf({ shape, affinityKey }: LedgerRequest): string {
  return `${affinityKey} ${headOf(shape)}`;
}

/** Returns whether most of the first messages of a prompt are as long as those of the last one. */
function isOfSameSizes({ begin }: LastPrompt, { boundaries }: PromptShape): boolean {
  const sizeOf = (list: readonly Boundary[], at: number) => (list[at]?.bytes ?? 0) - (list[at - 1]?.bytes ?? 0);
  const compared = Math.min(begin.length, boundaries.length) - 1;
  let same = 0;
  for (let at = 1; at <= compared; at += 1) if (sizeOf(begin, at) === sizeOf(boundaries, at)) same += 1;
  return same > 0 && same >= compared / 2;
}

function agentOf({ shape, affinityKey }: LedgerRequest): string {
  return `${affinityKey} ${shape.boundaries[0]?.hash ?? ""}`;
}

/** A request on its way to an endpoint, until the engine has told what was cached. */
export class SentRequest {
  readonly #facts: SentFacts;
  readonly #remember: (inputTokens: number) => void;

  constructor(facts: SentFacts, remember: (inputTokens: number) => void) {
    this.#facts = facts;
    this.#remember = remember;
  }

  /** Explains what was cached of `inputTokens` tokens of prompt. */
  measured(inputTokens: number, cachedTokens: number): CacheNote {
    const { shape, losses, expected, isNew } = this.#facts;
    this.#remember(inputTokens);
    const bytes = promptBytes(shape);
    const tokensPerByte = bytes > 0 && inputTokens > 0 ? inputTokens / bytes : TOKENS_PER_BYTE;
    const tolerated = TOLERATED.tokens + TOLERATED.share * inputTokens;
    // Where all turns are cached as they stand, the change that is seen here was paid for by way of another gateway.
    const turnBytes = shape.boundaries[shape.lastTurn ?? -1]?.bytes ?? Number.POSITIVE_INFINITY;
    const isOld = cachedTokens >= turnBytes * tokensPerByte - tolerated;
    let worst: { readonly tokens: number; readonly loss: Loss } | undefined;
    for (const loss of losses) {
      if (isOld && loss.changedMessage !== undefined && loss.changedMessage <= (shape.lastTurn ?? -1)) continue;
      const upTo = Math.min(loss.upToTokens ?? Number.POSITIVE_INFINITY, loss.upToBytes * tokensPerByte);
      const unchanged = loss.fromTokens ?? tokensPerByte * (loss.fromBytes ?? 0);
      // What a client has changed is lost whatever else was cached.
      const from = loss.changedMessage === undefined ? Math.max(cachedTokens, unchanged) : unchanged;
      const tokens = Math.round(upTo - from);
      if (tokens > tolerated && tokens > (worst?.tokens ?? 0)) worst = { tokens, loss };
    }
    return {
      expectedTokens: Math.min(expected, inputTokens),
      cachedTokens,
      lostTokens: worst?.tokens ?? 0,
      reason: worst?.loss.reason ?? (isNew ? "new" : "hit"),
      changedMessage: worst?.loss.changedMessage,
    };
  }
}
