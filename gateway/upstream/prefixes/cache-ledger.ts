import { BoundedMap } from "../../../deploy/runtime/memory/bounded-map.ts";
import { type Boundary, headOf, type PromptShape, promptBytes } from "../load-balancing/boundary-hashes.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import type { HeldPrefixes } from "../load-balancing/held-prefixes.ts";
import { bytesUpTo, COMPARED_TAIL, type LastPrompt, LastPrompts, lastPrompt, sameIn } from "./last-prompts.ts";

/** The most prefixes whose last use is remembered, some 200 bytes each. */
const MAX_PLACES = 100_000;
/** The most endpoints whose last use of a prefix is remembered. */
const MAX_USERS = 4;
/** The most conversations whose last prompt is remembered, up to 10 KB each. */
const MAX_CONVERSATIONS = 5_000;
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
  /** Returns the number of tokens by which an endpoint caches prefixes; 0 or 1 where a part of a block may be found, too. */
  readonly blockTokensOf: (address: string) => number;
  /** Returns what an endpoint tells of its gateways and of how long it keeps what nobody uses; undefined if it is gone. */
  readonly viewOf: (address: string) => Pick<EndpointView, "gateways" | "retentionMs"> | undefined;
};

/** The request that is followed. */
export type LedgerRequest = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
};

/** The tokens of an answer, as an engine counts them. */
type AnswerTokens = {
  /** The tokens of the prompt. */
  readonly inputTokens: number;
  /** All tokens of the answer. */
  readonly outputTokens: number;
  /** Those of its reasoning. */
  readonly reasoningTokens: number;
};

/** The names by which a request's last prompts are remembered. */
type Names = { readonly conversation: string; readonly agent: string };

type Named = LedgerRequest & Names;

/** A prompt that an endpoint has read, and what became of it there since. */
type CachedPrompt = {
  readonly address: string;
  readonly life: number | undefined;
  /** The digest of the whole prompt. */
  readonly digest: string;
  /** The tokens of the whole prompt. */
  readonly inputTokens: number;
  /** Monotonic milliseconds at which the endpoint last used it: at the end of its prefill, and at that of its answer. */
  atMs: number;
  /** The tokens of the answer that stay behind the prompt, for the turn that goes on with it; 0 until it has ended. */
  answerTokens: number;
};

/** The last use of a prefix on an endpoint. */
type Use = {
  /** The prompt that the prefix was a part of. */
  readonly prompt: CachedPrompt;
  readonly tokens: number;
  /** The last use before on another endpoint, which may still have it: of a beginning that many conversations have, say. */
  readonly before: Use | undefined;
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
  readonly #conversations = new LastPrompts(MAX_CONVERSATIONS);
  /** The newest prompt by affinity key and system part: a conversation that is summarised begins with another message. */
  readonly #newestOfAgent = new BoundedMap<string, LastPrompt>(MAX_CONVERSATIONS);
  /** The last prompts by affinity key: with other tools or another system message nothing of a prompt is the same. */
  readonly #lastOfKey = new LastPrompts(MAX_CONVERSATIONS);

  /** Begins without a memory. */
  constructor(parts: CacheLedgerParts) {
    this.#parts = parts;
  }

  /**
   * Begins to follow a request that goes to the endpoint at `address` at the monotonic time `nowMs`. Returns what explains
   * its cached tokens, to be asked once when the engine has told them, and is to be told of its prefill and its answer.
   */
  sent(request: LedgerRequest, address: string, nowMs: number): SentRequest {
    const { shape } = request;
    const names = namesOf(request);
    const seen = this.#deepestUse(shape);
    const changed = this.#changedIn({ ...request, ...names }, seen?.index, this.#parts.viewOf(address)?.gateways ?? 0);
    const passed = changed ? undefined : passedBy(shape, seen?.index);
    const losses = this.#lostToServers(shape, seen, { address, nowMs, isPassed: passed !== undefined });
    if (changed) losses.push(changed);
    // Where nothing else can be said of what came by here, what came of it since is the other gateway's doing as well.
    if (passed) losses.push(losses.length > 0 ? passed : { ...passed, fromBytes: 0 });
    const expected = this.#expected(shape, address, seen, nowMs);
    const facts = { shape, losses, expected, isNew: !seen && shape.lastTurn === undefined };
    return new SentRequest(facts, {
      measured: () => this.#noteConversation(request, names),
      prefilled: (inputTokens, atMs) => this.#remember(shape, address, inputTokens, atMs),
    });
  }

  /** Returns the longest part of a prompt that some endpoint has read before. */
  #deepestUse({ boundaries }: PromptShape): { readonly index: number; readonly use: Use } | undefined {
    for (let index = boundaries.length - 1; index >= 0; index -= 1) {
      if (index >= USED.head && index < boundaries.length - COMPARED_TAIL) index = USED.head - 1;
      const use = this.#uses.get(boundaries[index]?.hash ?? "");
      if (use) return { index, use };
    }
    return undefined;
  }

  /** Returns what endpoints have lost or hold elsewhere; `isPassed` where the turn before came by another gateway. */
  #lostToServers(
    { boundaries, lastTurn }: PromptShape,
    seen: { readonly index: number; readonly use: Use } | undefined,
    { address, nowMs, isPassed }: { readonly address: string; readonly nowMs: number; readonly isPassed: boolean },
  ): Loss[] {
    if (!seen) {
      // Another gateway may have sent the system part of a conversation that begins here.
      const begin = lastTurn === undefined && this.#heldElsewhere(boundaries, boundaries.length - 1, address);
      return begin ? [begin] : [];
    }
    const { index, use } = seen;
    const { prefixes, lifeOf } = this.#parts;
    const loss = { upToBytes: boundaries[index]?.bytes ?? 0, fromBytes: undefined, upToTokens: use.tokens };
    const usedOn = use.prompt.address;
    if (lifeOf(usedOn) !== use.prompt.life) return [{ ...loss, reason: "node_restarted" }];
    const elsewhere = this.#heldElsewhere(boundaries, index, address);
    // What is behind the part that another one holds, that one has evicted as well.
    if (elsewhere) return [elsewhere, { ...loss, reason: "evicted", fromTokens: elsewhere.upToTokens }];
    // Where endpoints do not tell, nobody here knows where the other gateway has sent the conversation.
    if (isPassed && !prefixes.fillOf(address)) return [];
    if (usedOn === address || prefixes.fillOf(usedOn) || this.#isGone(use.prompt, nowMs))
      return [{ ...loss, reason: "evicted" }];
    return [{ ...loss, reason: this.#isBelieved(use.prompt, nowMs) ? "moved" : "belief_expired" }];
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

  /**
   * Returns what of the conversation's last prompt is not in this one, where this request is the first without it. Where
   * there are several gateways, an earlier one that came by another may have been.
   */
  #changedIn(request: Named, seenIndex: number | undefined, gateways: number): Loss | undefined {
    const { shape } = request;
    const hasOthers = gateways > 1;
    const last = this.#lastOf(request, gateways === 1);
    const changed = last && changeOf(last, shape);
    const message = changed?.changedMessage ?? 0;
    if (!last || !changed || (seenIndex ?? -1) >= message) return undefined;
    const turn = shape.lastTurn ?? -1;
    if (message > turn) return changed;
    // What is held and was not seen here came by another gateway; one that is alone forgets what is in the middle.
    if (this.#isHeld(shape.boundaries[hasOthers ? message : turn]?.hash)) return undefined;
    // Later turns of other gateways would have pushed out the last prompt of this one.
    const isPassed = hasOthers && turn >= last.from + last.tail.length;
    return isPassed && !this.#isHeld(last.tail.at(-1)?.hash) ? undefined : changed;
  }

  /**
   * Returns the prompt that a request goes on from, as far as that can be told; undefined for none. `isAlone` says that no
   * turn came by another gateway.
   */
  #lastOf({ shape, affinityKey, conversation, agent }: Named, isAlone: boolean): LastPrompt | undefined {
    const last = this.#conversations.of(conversation, shape);
    if (last) return last;
    const ofAgent = this.#newestOfAgent.get(agent);
    // What is no summary and goes on with nothing may be another conversation of the same agent.
    if (ofAgent)
      return shape.lastTurn === undefined && changeOf(ofAgent, shape)?.reason !== "compaction" ? undefined : ofAgent;
    const ofKey = this.#lastOfKey.branches(affinityKey);
    const alike = ofKey.find((one) => isOfSameSizes(one, shape));
    // Who has seen all turns of a session knows that the client made this one of them; what is summarised is long.
    return alike ?? (isAlone && shape.lastTurn !== undefined ? longest(ofKey) : undefined);
  }

  /** Returns whether an endpoint has pushed out what was last used then, by its own word of how long it keeps it. */
  #isGone({ address, atMs }: CachedPrompt, nowMs: number): boolean {
    const { retentionMs } = this.#parts.viewOf(address) ?? {};
    return retentionMs !== undefined && nowMs - atMs > retentionMs;
  }

  #isBelieved({ address, atMs }: CachedPrompt, nowMs: number): boolean {
    return nowMs - atMs < this.#parts.believedMs(address);
  }

  /** Returns whether what was used last then is still believed to be where it was. */
  #isThere(prompt: CachedPrompt, nowMs: number): boolean {
    return (
      prompt.life === this.#parts.lifeOf(prompt.address) &&
      this.#isBelieved(prompt, nowMs) &&
      !this.#isGone(prompt, nowMs)
    );
  }

  #isHeld(digest = ""): boolean {
    const [holder] = this.#parts.prefixes.holders(digest);
    return holder !== undefined;
  }

  #expected(shape: PromptShape, address: string, seen: { readonly index: number } | undefined, nowMs: number): number {
    const { boundaries } = shape;
    const { prefixes } = this.#parts;
    if (!prefixes.fillOf(address)) return this.#believed(shape, address, seen?.index ?? -1, nowMs);
    for (let index = boundaries.length - 1; index >= 0; index -= 1) {
      for (const holder of prefixes.holders(boundaries[index]?.hash ?? ""))
        if (holder.address === address) return holder.tokens + holder.tailTokens;
    }
    return 0;
  }

  /** Returns the tokens that an endpoint which does not tell has, by what it has read up to the boundary at `seenIndex`. */
  #believed({ boundaries, lastTurn }: PromptShape, address: string, seenIndex: number, nowMs: number): number {
    for (let index = seenIndex; index >= 0; index -= 1) {
      const boundary = boundaries[index];
      const own = boundary && useOn(this.#uses.get(boundary.hash), address);
      // What is gone may have a beginning that others have used since.
      if (own && this.#isThere(own.prompt, nowMs)) {
        const goesOn = own.prompt.digest === boundary.hash && index <= (lastTurn ?? -1);
        const tokens = own.tokens + (goesOn ? own.prompt.answerTokens : 0);
        // A part of a block is never found.
        return tokens - (tokens % Math.max(1, this.#parts.blockTokensOf(address)));
      }
      if (index > USED.head && index < boundaries.length - COMPARED_TAIL) index = USED.head;
    }
    return 0;
  }

  /** Notes that an endpoint has read a prompt. Returns the note, to be kept true. */
  #remember({ boundaries }: PromptShape, address: string, inputTokens: number, atMs: number): CachedPrompt {
    const { hash: digest = "", bytes = 0 } = boundaries.at(-1) ?? {};
    const prompt = { address, life: this.#parts.lifeOf(address), digest, inputTokens, atMs, answerTokens: 0 };
    const tokensPerByte = bytes > 0 ? inputTokens / bytes : 0;
    for (let index = 0; index < boundaries.length; index += 1) {
      if (index === USED.head) index = Math.max(index, boundaries.length - USED.tail);
      const boundary = boundaries[index];
      if (!boundary) continue;
      const before = usesElsewhere(this.#uses.get(boundary.hash), address, MAX_USERS - 1);
      this.#uses.set(boundary.hash, { prompt, tokens: Math.round(tokensPerByte * boundary.bytes), before });
    }
    return prompt;
  }

  #noteConversation({ shape, affinityKey }: LedgerRequest, { conversation, agent }: Names): void {
    const last = lastPrompt(shape);
    this.#conversations.note(conversation, shape, last);
    this.#newestOfAgent.set(agent, last);
    this.#lastOfKey.note(affinityKey, shape, last);
  }
}

/** Returns the last use on an endpoint; undefined where none is remembered. */
function useOn(use: Use | undefined, address: string): Use | undefined {
  let on = use;
  while (on && on.prompt.address !== address) on = on.before;
  return on;
}

/** Returns the last uses on other endpoints than the one at `address`, `most` of them. */
function usesElsewhere(use: Use | undefined, address: string, most: number): Use | undefined {
  if (!use || most === 0) return undefined;
  // Mostly a conversation goes on where it was: then nothing is made.
  if (use.prompt.address === address) return use.before;
  const before = usesElsewhere(use.before, address, most - 1);
  return before === use.before ? use : { ...use, before };
}

/** Returns what of a conversation's last prompt is not in its next one; undefined where all of it is. */
function changeOf(last: LastPrompt, shape: PromptShape): Loss | undefined {
  const { tail, from, begin } = last;
  const same = sameIn(last, shape);
  const end = tail.at(-1);
  if (same === from + tail.length - 1 || !end) return undefined;
  // Between the begin and the tail nothing is remembered: there the change is taken to be as late as it can be.
  const changedMessage = same === begin.length - 1 ? Math.max(from, same + 1) : same + 1;
  return {
    reason: promptBytes(shape) < end.bytes / 2 ? "compaction" : "client_changed",
    upToBytes: end.bytes,
    fromBytes: bytesUpTo(last, same),
    upToTokens: undefined,
    changedMessage,
  };
}

/** Returns what of the last turn never came by here, of a prompt that was seen up to a boundary; undefined for nothing. */
function passedBy({ boundaries, lastTurn }: PromptShape, seenIndex = -1): Loss | undefined {
  if (lastTurn === undefined || seenIndex >= lastTurn) return undefined;
  const fromBytes = boundaries[seenIndex]?.bytes ?? 0;
  return { reason: "other_gateway", upToBytes: boundaries[lastTurn]?.bytes ?? 0, fromBytes, upToTokens: undefined };
}

/** Returns the names by which a request's conversation is remembered, and that of its agent with its system part. */
function namesOf({ shape, affinityKey }: LedgerRequest): Names {
  return {
    conversation: `${affinityKey} ${headOf(shape)}`,
    agent: `${affinityKey} ${shape.boundaries[0]?.hash ?? ""}`,
  };
}

function longest(prompts: readonly LastPrompt[]): LastPrompt | undefined {
  return prompts.toSorted((one, other) => (other.tail.at(-1)?.bytes ?? 0) - (one.tail.at(-1)?.bytes ?? 0))[0];
}

/** Returns whether most of the first messages of a prompt are as long as those of the last one. */
function isOfSameSizes({ begin }: LastPrompt, { boundaries }: PromptShape): boolean {
  const sizeOf = (list: readonly Boundary[], at: number) => (list[at]?.bytes ?? 0) - (list[at - 1]?.bytes ?? 0);
  const compared = Math.min(begin.length, boundaries.length) - 1;
  let same = 0;
  for (let at = 1; at <= compared; at += 1) if (sizeOf(begin, at) === sizeOf(boundaries, at)) same += 1;
  return same > 0 && same >= compared / 2;
}

/** Takes what becomes of a request into the memory of its ledger. */
type Memory = {
  readonly measured: () => void;
  readonly prefilled: (inputTokens: number, atMs: number) => CachedPrompt;
};

/** A request on its way to an endpoint, until its answer has ended. */
export class SentRequest {
  readonly #facts: SentFacts;
  readonly #memory: Memory;
  #prompt: CachedPrompt | undefined;

  constructor(facts: SentFacts, memory: Memory) {
    this.#facts = facts;
    this.#memory = memory;
  }

  /**
   * Notes at the monotonic time `nowMs` that the endpoint has read the prompt, of so many tokens: from then on others can
   * find it there. It does nothing where the tokens are not known, 0, and nothing at a second call.
   */
  prefilled(inputTokens: number, nowMs: number): void {
    if (inputTokens > 0) this.#prompt ??= this.#memory.prefilled(inputTokens, nowMs);
  }

  /**
   * Notes at the monotonic time `nowMs` that the answer has ended. The next turn finds it behind the prompt, but for one
   * that begins with reasoning, which is left out of the history.
   */
  answered({ inputTokens, outputTokens, reasoningTokens }: AnswerTokens, nowMs: number): void {
    // Not every engine has counted the prompt before its answer begins.
    if (this.#prompt?.inputTokens !== inputTokens) this.#prompt = undefined;
    this.prefilled(inputTokens, nowMs);
    if (!this.#prompt) return;
    this.#prompt.atMs = nowMs;
    this.#prompt.answerTokens = reasoningTokens > 0 ? 0 : outputTokens;
  }

  /** Explains what was cached of `inputTokens` tokens of prompt. */
  measured(inputTokens: number, cachedTokens: number): CacheNote {
    const { shape, losses, expected, isNew } = this.#facts;
    this.#memory.measured();
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
