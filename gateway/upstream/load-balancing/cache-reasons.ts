import { LRUCache } from "lru-cache";
import { type Boundary, type PromptShape, promptBytes } from "./boundary-hashes.ts";
import type { PrefilledPart, PrefixIndex, SentPrompt } from "./prefix-index.ts";

/**
 * Why fewer tokens of a prompt were cached than possible. `hit`: none were missing; `new`: the prompt begins a
 * conversation, which no endpoint can hold. `client_changed`: the client changed a message that was sent before;
 * `rewritten`: it sent a much shorter history instead, as its compactions do; `tools_left_out`: it left out
 * the tools of its conversation; `reasoning_lost`: sealed reasoning that it sent back did not open, so that the prompt
 * lacks it. `evicted`: the endpoint evicted it; `slot_taken`: another conversation
 * got its slot there; `moved`: another endpoint holds it, which was too busy or full;
 * `belief_expired`: another endpoint held it, but was last used too long ago to rely on; `node_restarted`: the endpoint
 * that held it has left or restarted; `other_gateway`: the previous turn passed through another gateway;
 * `begun_elsewhere`: there is no other gateway, so that it passed through this one before its start, or another service,
 * or the client has rewritten it from its first message on.
 */
export type CacheReason =
  | "hit"
  | "new"
  | "client_changed"
  | "rewritten"
  | "tools_left_out"
  | "reasoning_lost"
  | "evicted"
  | "slot_taken"
  | "moved"
  | "belief_expired"
  | "node_restarted"
  | "other_gateway"
  | "begun_elsewhere";

/** The expected and the measured cached tokens of a request, and the reason for the difference. */
export type CacheNote = {
  readonly expectedTokens: number;
  readonly cachedTokens: number;
  /** The tokens that could have been cached and were not; 0 where nothing needs explaining. */
  readonly lostTokens: number;
  /** The single reason: that of the most lost tokens. */
  readonly reason: CacheReason;
  readonly changedMessage: number | undefined;
  /** The part of the prompt in which the change begins; undefined where the client changed nothing. */
  readonly changedPart: ChangedPart | undefined;
};

export type ChangedPart = "tools" | "system" | "messages";

export type ExplainedPrompt = {
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
  /** Whether reasoning that the caller sent back is missing from the prompt. Default: false. */
  readonly lacksReasoning?: boolean | undefined;
  /** Whether the tools of the conversation that the prompt continues are missing from it. Default: false. */
  readonly lacksTools?: boolean | undefined;
  readonly address: string;
  /** The record of the prompt in the index; prefilled already for an engine that reports cached tokens at the end. */
  readonly sent?: SentPrompt | undefined;
  readonly expectedTokens: number;
};

/** The loss below which nothing needs explaining, in tokens and as a share of the prompt. */
const TOLERATED = { tokens: 64, share: 0.01 };
const TOKENS_PER_BYTE = 0.25;
/** The most boundaries of earlier prompts that are stored, some 100 bytes each: those of 5,000 conversations. */
const MAX_BOUNDARIES = 500_000;
/** The most prompts stored for one affinity key: its sessions, and the branches to which their clients may return. */
const MAX_EARLIER = 8;
/** The messages at the beginning of a prompt whose sizes identify it behind other tools. */
const COMPARED_SIZES = 8;

/** A part of a prompt that may have been lost, and why; the number of lost tokens follows from the measurement. */
type Loss = {
  readonly reason: CacheReason;
  /** The size of the prompt up to the end of the part, in bytes. */
  readonly upToBytes: number;
  /** The size of the prompt before the part, in bytes; undefined where all of it may be lost, too. */
  readonly fromBytes?: number | undefined;
  /** The tokens before the lost part, where known more exactly than by bytes. */
  readonly fromTokens?: number;
  /** The tokens up to the end of the part, where known more exactly than by bytes. */
  readonly upToTokens?: number;
  readonly changedMessage?: number;
  readonly changedPart?: ChangedPart;
};

/** Explains the cache misses of a cluster's requests by its prefix index and by the earlier prompts of each caller. */
export class CacheReasons {
  readonly #index: PrefixIndex;
  readonly #earlier = new EarlierPrompts();

  constructor(index: PrefixIndex) {
    this.#index = index;
  }

  /** Explains the measured cached tokens of a prompt, at the monotonic time `nowMs`, and stores the prompt. */
  explain(prompt: ExplainedPrompt, inputTokens: number, cachedTokens: number, nowMs: number): CacheNote {
    const { shape, affinityKey } = prompt;
    const expectedTokens = Math.round(Math.min(prompt.expectedTokens, inputTokens));
    // No loss of such a prompt needs explaining, and it is no summary of a longer one.
    if (inputTokens <= TOLERATED.tokens) {
      const reason = shape.lastTurn === undefined && cachedTokens === 0 ? "new" : "hit";
      return { expectedTokens, cachedTokens, lostTokens: 0, reason, changedMessage: undefined, changedPart: undefined };
    }
    const bytes = promptBytes(shape);
    const tokensPerByte = bytes > 0 && inputTokens > 0 ? inputTokens / bytes : TOKENS_PER_BYTE;
    const tolerated = TOLERATED.tokens + TOLERATED.share * inputTokens;
    const seen = this.#index.prefilled(shape, prompt.sent);
    const losses = this.#losses(prompt, seen, nowMs);
    this.#earlier.add(affinityKey, shape);
    // Where all turns are cached as they are, the change seen here was already prefilled through another gateway.
    const turn = shape.lastTurn ?? -1;
    const isOld = cachedTokens >= (shape.boundaries[turn]?.bytes ?? Infinity) * tokensPerByte - tolerated;
    let worst: { readonly tokens: number; readonly loss: Loss } | undefined;
    for (const loss of losses) {
      const { changedMessage, fromBytes = 0, upToBytes, upToTokens = Infinity } = loss;
      if (isOld && changedMessage !== undefined && changedMessage <= turn) continue;
      const unchanged = loss.fromTokens ?? tokensPerByte * fromBytes;
      // The part that a client changed is lost whatever else was cached.
      const from = changedMessage === undefined ? Math.max(cachedTokens, unchanged) : unchanged;
      const tokens = Math.round(Math.min(upToTokens, upToBytes * tokensPerByte) - from);
      if (tokens > tolerated && tokens > (worst?.tokens ?? 0)) worst = { tokens, loss };
    }
    const isNew = !seen && shape.lastTurn === undefined;
    return {
      expectedTokens,
      cachedTokens,
      lostTokens: worst?.tokens ?? 0,
      reason: worst?.loss.reason ?? (isNew ? "new" : "hit"),
      changedMessage: worst?.loss.changedMessage,
      changedPart: worst?.loss.changedPart,
    };
  }

  #losses(prompt: ExplainedPrompt, seen: PrefilledPart | undefined, nowMs: number): readonly Loss[] {
    const changed = prompt.lacksTools ? withoutTools(prompt.shape) : this.#changed(prompt, seen);
    const passed = changed ? undefined : this.#passedBy(prompt, seen?.index);
    const losses = this.#lostToServers(prompt, seen, passed !== undefined, nowMs);
    if (changed) return [...losses, changed];
    // Without another cause for a loss in the part seen here, the other gateway accounts for that part as well.
    return passed ? [...losses, losses.length > 0 ? passed : { ...passed, fromBytes: 0 }] : losses;
  }

  /** Returns the part of the caller's last prompt that is missing from this one, if this is the first without it. */
  #changed(
    { shape, affinityKey, address, lacksReasoning, sent }: ExplainedPrompt,
    seen: PrefilledPart | undefined,
  ): Loss | undefined {
    const gateways = this.#index.endpoints.get(address)?.gateways ?? 0;
    const last = this.#earlier.last(affinityKey, shape, gateways === 1);
    const found = last && changeOf(last, shape);
    const changed = found && {
      ...found,
      reason: lacksReasoning && found.changedPart === "messages" ? ("reasoning_lost" as const) : found.reason,
    };
    const message = changed?.changedMessage ?? 0;
    if (!last || !changed || (seen?.index ?? -1) >= message) return undefined;
    const turn = shape.lastTurn ?? -1;
    if (message > turn) return changed;
    // Behind its prefill the endpoint announces this very prompt.
    const own = sent?.state === "prefilled" ? address : undefined;
    const isAnnounced = (boundary: Boundary | undefined) => {
      // Of no bytes is the head of all prompts without tools and system part.
      if (boundary === undefined || boundary.bytes === 0) return false;
      return [...this.#index.announced.holders(boundary.hash)].some((holder) => holder.address !== own);
    };
    // An announced prefix unknown here passed through another gateway; a single gateway forgets the middle.
    if (isAnnounced(shape.boundaries[gateways > 1 ? message : turn])) return undefined;
    // Later turns through other gateways would have replaced the last prompt of this one.
    const isPassed = gateways > 1 && turn >= last.length;
    return isPassed && !isAnnounced(last.at(-1)) ? undefined : changed;
  }

  /** Returns the parts that endpoints have lost or hold elsewhere; `isPassed`: another gateway sent the last turn. */
  #lostToServers(
    { shape: { boundaries, lastTurn }, address }: ExplainedPrompt,
    seen: PrefilledPart | undefined,
    isPassed: boolean,
    nowMs: number,
  ): readonly Loss[] {
    if (!seen) {
      // Another gateway may have sent the system part of a conversation that begins here.
      const begin = lastTurn === undefined && this.#heldElsewhere(boundaries, boundaries.length - 1, address);
      return begin ? [begin] : [];
    }
    const { index, prompt } = seen;
    const { announced, endpoints } = this.#index;
    const upToBytes = boundaries[index]?.bytes ?? 0;
    const loss = { upToBytes, upToTokens: upToBytes * prompt.tokensPerByte };
    const usedOn = prompt.address;
    if (endpoints.get(usedOn)?.startedAtMs !== prompt.life) return [{ ...loss, reason: "node_restarted" }];
    const elsewhere = this.#heldElsewhere(boundaries, index, address);
    const evicted = (endpoints.get(usedOn)?.keptConversations ?? 0) > 0 ? "slot_taken" : "evicted";
    // The part behind that held by the other endpoint was evicted there as well.
    if (elsewhere) return [elsewhere, { ...loss, reason: evicted, fromTokens: elsewhere.upToTokens ?? 0 }];
    // Where endpoints do not announce, the pick of another gateway for the conversation is unknown.
    if (isPassed && !announced.fillOf(address)) return [];
    const isGone = prompt.usedAtMs < (endpoints.get(usedOn)?.evictedBeforeMs ?? -Infinity);
    if (usedOn === address || announced.fillOf(usedOn) || isGone) return [{ ...loss, reason: evicted }];
    return [{ ...loss, reason: nowMs < prompt.expiresAtMs ? "moved" : "belief_expired" }];
  }

  /** The part of the last turn that this gateway did not see, if any. */
  #passedBy({ shape, address, lacksReasoning }: ExplainedPrompt, seenIndex = -1): Loss | undefined {
    const { boundaries, lastTurn } = shape;
    if (lastTurn === undefined || seenIndex >= lastTurn) return undefined;
    const isAlone = this.#index.endpoints.get(address)?.gateways === 1;
    const reason = lacksReasoning ? "reasoning_lost" : isAlone ? "begun_elsewhere" : "other_gateway";
    const fromBytes = boundaries[seenIndex]?.bytes ?? 0;
    return { reason, upToBytes: boundaries[lastTurn]?.bytes ?? 0, fromBytes };
  }

  /** The longest part that another endpoint announces; undefined where this one announces as much. */
  #heldElsewhere(boundaries: readonly Boundary[], lastIndex: number, address: string): Loss | undefined {
    let upToBytes = boundaries[lastIndex]?.bytes ?? 0;
    for (let index = lastIndex; index >= 0; index -= 1) {
      let isHeldHere = false;
      for (const holder of this.#index.announced.holders(boundaries[index]?.hash ?? "")) {
        if (holder.address !== address)
          return { reason: "moved", upToBytes, upToTokens: holder.tokens + holder.tailTokens };
        isHeldHere = true;
      }
      if (isHeldHere) return undefined;
      // The tail behind a digest ends at the next digest.
      upToBytes = boundaries[index]?.bytes ?? 0;
    }
    return undefined;
  }
}

/** The last prompts of each affinity key, as digests. */
class EarlierPrompts {
  readonly #prompts = new LRUCache<string, readonly (readonly Boundary[])[]>({
    maxSize: MAX_BOUNDARIES,
    sizeCalculation: (prompts) => prompts.reduce((sum, { length }) => sum + length, 0),
  });

  /** The prompt that a request continues or changes; `isAlone`: no turn passed another gateway. */
  last(affinityKey: string, shape: PromptShape, isAlone: boolean): readonly Boundary[] | undefined {
    const prompts = this.#prompts.get(affinityKey) ?? [];
    const { prompt, same } = mostAlike(prompts, shape);
    if (same > 0) return prompt;
    // A prompt that shares only the head is a summary, or another conversation of the same agent.
    if (prompt && same === 0)
      return shape.lastTurn === undefined && changeOf(prompt, shape)?.reason !== "rewritten" ? undefined : prompt;
    // One that begins with the same words behind another system part is another conversation.
    if (shape.lastTurn === undefined) return undefined;
    const alike = prompts.find((one) => isOfSameSizes(one, shape));
    // A gateway that has seen all turns of a session can attribute the change to the client.
    return alike ?? (isAlone ? longest(prompts) : undefined);
  }

  /** Stores the prompt of a request in place of the one that it continues. */
  add(affinityKey: string, shape: PromptShape): void {
    const prompts = this.#prompts.get(affinityKey) ?? [];
    const { prompt, same } = mostAlike(prompts, shape);
    // One that keeps less than half of the earlier prompt leaves a branch to which the client may return.
    const isBranch = (prompt?.[same]?.bytes ?? 0) < (prompt?.at(-1)?.bytes ?? 0) / 2;
    const others = isBranch ? prompts : prompts.filter((one) => one !== prompt);
    this.#prompts.set(affinityKey, [shape.boundaries, ...others].slice(0, MAX_EARLIER));
  }
}

/** Returns the prompt with the most in common with `shape`, the newest of equals, and its last common boundary. */
function mostAlike(prompts: readonly (readonly Boundary[])[], { boundaries }: PromptShape) {
  let best: { readonly prompt: readonly Boundary[] | undefined; readonly same: number } = {
    prompt: undefined,
    same: -1,
  };
  for (const prompt of prompts) {
    const same = lastSame(prompt, boundaries);
    if (same > best.same) best = { prompt, same };
  }
  return best;
}

/** Returns the index of the last equal boundary of two prompts; -1 for none. A digest covers everything before it. */
function lastSame(one: readonly Boundary[], other: readonly Boundary[]): number {
  let low = 0;
  let high = Math.min(one.length, other.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (one[middle]?.hash === other[middle]?.hash) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Returns all that the prompt shares with its conversation, which had tools in front. */
function withoutTools({ boundaries, lastTurn = 0 }: PromptShape): Loss {
  const upToBytes = boundaries[lastTurn]?.bytes ?? 0;
  return { reason: "tools_left_out", upToBytes, fromBytes: 0, changedMessage: 0, changedPart: "tools" };
}

/** Returns the part of an earlier prompt that is missing from a later one; undefined if none. */
function changeOf(earlier: readonly Boundary[], shape: PromptShape): Loss | undefined {
  const same = lastSame(earlier, shape.boundaries);
  const upToBytes = earlier.at(-1)?.bytes ?? 0;
  if (same === earlier.length - 1) return undefined;
  const [tools, had] = [shape.boundaries[0]?.tools, earlier[0]?.tools];
  const changedPart = same >= 0 ? "messages" : tools === had ? "system" : "tools";
  const isShorter = promptBytes(shape) < upToBytes / 2;
  const leavesOut = changedPart === "tools" && tools === undefined;
  const reason = leavesOut ? "tools_left_out" : isShorter ? "rewritten" : "client_changed";
  return { reason, upToBytes, fromBytes: earlier[same]?.bytes ?? 0, changedMessage: same + 1, changedPart };
}

function longest(prompts: readonly (readonly Boundary[])[]): readonly Boundary[] | undefined {
  return prompts.toSorted((one, other) => (other.at(-1)?.bytes ?? 0) - (one.at(-1)?.bytes ?? 0))[0];
}

/** Returns whether most of the first messages of two prompts are equally long. */
function isOfSameSizes(earlier: readonly Boundary[], { boundaries }: PromptShape): boolean {
  const sizeOf = (list: readonly Boundary[], at: number) => (list[at]?.bytes ?? 0) - (list[at - 1]?.bytes ?? 0);
  const compared = Math.min(COMPARED_SIZES, earlier.length, boundaries.length) - 1;
  let same = 0;
  for (let at = 1; at <= compared; at += 1) if (sizeOf(earlier, at) === sizeOf(boundaries, at)) same += 1;
  return same > 0 && same >= compared / 2;
}
