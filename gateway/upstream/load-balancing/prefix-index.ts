import { LRUCache } from "lru-cache";
import type { WatchPrefixesResponse } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { DIGEST_BYTES, type PromptShape } from "./boundary-hashes.ts";
import type { EndpointView } from "./endpoint-view.ts";

/** The most announced prefixes of one cluster, of all its endpoints together: about 200 MB. */
const MAX_ANNOUNCED = 1_000_000;
/** The most prefixes of sent prompts, some 200 bytes each; the least recently used are evicted first. */
const MAX_SENT = 100_000;
/** The most sent prompts stored for one prefix, at most two of an endpoint; all endpoints soon hold a shared head. */
const MAX_PROMPTS = 16;
/** The boundaries of a prompt that are stored: those in between were at the end of an earlier turn's prompt. */
const INDEXED = { head: 2, tail: 8 };

const NOTHING: readonly never[] = [];

/** The part of a prefix that an endpoint announces in its cache. */
export type AnnouncedPrefix = {
  readonly address: string;
  /** The tokens from the beginning of the prompt to the digest. */
  readonly tokens: number;
  /** The cached tokens behind the digest, of the prompt and answer that continued there, up to their next digest. */
  readonly tailTokens: number;
  /** The last of all these that the endpoint has to load from below its accelerator's memory. Default: 0. */
  readonly lowerTokens?: number;
};

/** The occupancy of an endpoint's KV cache, by cached prefixes and running generations. */
export type CacheFill = {
  /** The occupied tokens, for all models of the node together. */
  readonly usedTokens: number;
  /** The capacity in tokens; 0 where the node does not report it. */
  readonly totalTokens: number;
};

/** The announced prefixes of a cluster: exact for the endpoints that announce theirs, and empty for the others. */
export interface AnnouncedPrefixes {
  /** Returns the endpoints that announce the prefix with this digest (`Boundary.hash`), each once. */
  holders(digest: string): Iterable<AnnouncedPrefix>;
  /** Returns the occupancy of an endpoint's cache; undefined while it does not announce its prefixes. */
  fillOf(address: string): CacheFill | undefined;
}

type Announcer = { fill: CacheFill; readonly digests: Set<string> };

/** Stores the prefixes that the endpoints of a cluster announce. It is bounded: when full, it ignores new prefixes. */
export class Announcements implements AnnouncedPrefixes {
  readonly #most: number;
  readonly #holders = new Map<string, readonly AnnouncedPrefix[]>();
  readonly #announcers = new Map<string, Announcer>();
  /** The number of stored prefixes, each counted once per endpoint that holds it. */
  size = 0;

  constructor(most = MAX_ANNOUNCED) {
    this.#most = most;
  }

  holders(digest: string): readonly AnnouncedPrefix[] {
    return this.#holders.get(digest) ?? NOTHING;
  }

  fillOf(address: string): CacheFill | undefined {
    return this.#announcers.get(address)?.fill;
  }

  /** Applies the next message of the endpoint at `address`. */
  take(address: string, { reset, held, dropped, kvTokensUsed, kvTokensTotal }: WatchPrefixesResponse): void {
    if (reset) this.forget(address);
    const fill = { usedTokens: kvTokensUsed, totalTokens: kvTokensTotal };
    const announcer = this.#announcers.get(address) ?? { fill, digests: new Set() };
    announcer.fill = fill;
    this.#announcers.set(address, announcer);
    for (let at = 0; at < dropped.length; at += DIGEST_BYTES)
      this.#drop(dropped.toString("base64url", at, at + DIGEST_BYTES), address, announcer);
    for (const { digest, tokens, tailTokens, lowerTokens } of held)
      this.#hold(digest.toString("base64url"), { address, tokens, tailTokens, lowerTokens }, announcer);
  }

  forget(address: string): void {
    const announcer = this.#announcers.get(address);
    if (!announcer) return;
    for (const digest of announcer.digests) this.#drop(digest, address, announcer);
    this.#announcers.delete(address);
  }

  #hold(digest: string, holder: AnnouncedPrefix, { digests }: Announcer): void {
    if (!digests.has(digest)) {
      if (this.size >= this.#most) return;
      digests.add(digest);
      this.size += 1;
    }
    const others = this.holders(digest).filter(({ address }) => address !== holder.address);
    this.#holders.set(digest, [...others, holder]);
  }

  #drop(digest: string, from: string, { digests }: Announcer): void {
    if (!digests.delete(digest)) return;
    this.size -= 1;
    const others = this.holders(digest).filter(({ address }) => address !== from);
    if (others.length > 0) this.#holders.set(digest, others);
    else this.#holders.delete(digest);
  }
}

/** A prompt that this gateway sent to an endpoint. All its boundaries in the index share it. */
export type SentPrompt = {
  readonly address: string;
  /** The endpoint's `startedAtMs` when the prompt was sent: with another one its cache is empty. */
  readonly life: number | undefined;
  /** The digest of the whole prompt. */
  readonly digest: string;
  /** Measured once the prompt is prefilled, estimated before. */
  tokensPerByte: number;
  /** Monotonic milliseconds of the last use: sent, or prefilled. */
  usedAtMs: number;
  /** Monotonic milliseconds from which the prefix is no longer believed cached. */
  expiresAtMs: number;
  state: "sent" | "prefilled" | "withdrawn";
  /** The tokens of the answer that stay behind the prompt, for the turn that continues it; 0 before the answer ends. */
  answerTokens: number;
};

/** The longest part of a prompt that an endpoint holds. */
export type HeldPart = {
  /** The index of the boundary at its end. */
  readonly index: number;
  readonly bytes: number;
  readonly tokens: number;
  /** The cached tokens behind the part, of an answer that the prompt continues. */
  readonly tailTokens: number;
  /** The announced ones among them, at most as many as the prompt probably has before its next boundary. */
  readonly usableTailTokens: number;
  /** The tokens of part and usable tail that the endpoint has to load from below its accelerator's memory. */
  readonly lowerTokens: number;
  /** The last use of the sent prompt that the part is believed by; undefined where the endpoint announced it. */
  readonly usedAtMs: number | undefined;
  /** Whether the endpoint has prefilled the part; otherwise a request with it is on its way there. */
  readonly prefilled: boolean;
};

/** The endpoints that hold a part of a prompt. */
export type HeldParts = {
  /** The longest part on each endpoint, by address. */
  readonly byAddress: ReadonlyMap<string, HeldPart>;
  /** Whether the endpoint of the conversation's last turn is known. Otherwise another gateway may have placed it. */
  readonly upToDate: boolean;
};

/** The longest part of a prompt that some endpoint has prefilled before. */
export type PrefilledPart = { readonly index: number; readonly prompt: SentPrompt };

/** The endpoints' state that the index reads: undefined for one that has left. */
export type IndexedEndpoints = {
  get(
    address: string,
  ): Pick<EndpointView, "gateways" | "evictedBeforeMs" | "keptConversations" | "startedAtMs"> | undefined;
};

const NO_ENDPOINTS: IndexedEndpoints = { get: () => undefined };

/**
 * The endpoints of a cluster that hold a prefix, by its digest: announced by the endpoint, or believed because this
 * gateway sent a prompt with it there. An announcement counts more: endpoints that announce are believed to hold only
 * prompts on their way beside it.
 */
export class PrefixIndex {
  readonly announced: AnnouncedPrefixes;
  readonly endpoints: IndexedEndpoints;
  /** The prompts with each prefix, the last sent first; those of lost caches stay to explain misses. */
  readonly #sent: LRUCache<string, readonly SentPrompt[]>;
  /** By address, the last use of the latest prefix found evicted: prefixes last used before that are evicted, too. */
  readonly #evictedUntilMs = new Map<string, number>();

  constructor(
    announced: AnnouncedPrefixes = new Announcements(),
    endpoints: IndexedEndpoints = NO_ENDPOINTS,
    maxSent = MAX_SENT,
  ) {
    this.announced = announced;
    this.endpoints = endpoints;
    // By size, as `max` would reserve the room of all entries in every cluster, most of which see few prompts.
    this.#sent = new LRUCache({ maxSize: maxSent, sizeCalculation: () => 1 });
  }

  /** Adds a prompt that is on its way to an endpoint. The caller updates the returned record. */
  sent(
    { boundaries }: PromptShape,
    address: string,
    { tokensPerByte, ttlMs, nowMs }: Readonly<Record<"tokensPerByte" | "ttlMs" | "nowMs", number>>,
  ): SentPrompt {
    const prompt: SentPrompt = {
      address,
      life: this.endpoints.get(address)?.startedAtMs,
      digest: boundaries.at(-1)?.hash ?? "",
      tokensPerByte,
      usedAtMs: nowMs,
      expiresAtMs: nowMs + ttlMs,
      state: "sent",
      answerTokens: 0,
    };
    const tailFrom = boundaries.length - INDEXED.tail;
    for (const [index, { hash, bytes, marked }] of boundaries.entries()) {
      // The empty head of all prompts without tools and system part says nothing of any.
      if (bytes > 0 && (index < INDEXED.head || index >= tailFrom || marked))
        this.#sent.set(hash, withNewest(prompt, this.#sent.get(hash) ?? NOTHING));
    }
    return prompt;
  }

  /** Records that an endpoint no longer holds prefixes last used at `usedAtMs` or before: those are evicted first. */
  evicted(address: string, usedAtMs: number): void {
    this.#evictedUntilMs.set(address, Math.max(usedAtMs, this.#evictedUntilMs.get(address) ?? usedAtMs));
  }

  /** Finds the holders of a prompt's parts. The cost grows with the new part of the conversation, not its length. */
  held(shape: PromptShape, nowMs: number, tokensPerByte: number): HeldParts {
    const { boundaries, lastTurn } = shape;
    const byAddress = new Map<string, HeldPart>();
    // An endpoint that holds a longer part holds the shorter ones, too.
    const ofFirstMessage = new Map<string, HeldPart>();
    let longest = this.#addHolders(ofFirstMessage, shape, 1, nowMs, tokensPerByte) ? 1 : 0;
    for (let index = boundaries.length - 1; index > 1 && byAddress.size < ofFirstMessage.size; index -= 1)
      if (this.#addHolders(byAddress, shape, index, nowMs, tokensPerByte)) longest = Math.max(longest, index);
    for (const [address, part] of ofFirstMessage) if (!byAddress.has(address)) byAddress.set(address, part);
    this.#addHolders(byAddress, shape, 0, nowMs, tokensPerByte);
    return { byAddress, upToDate: longest > 0 && longest >= (lastTurn ?? 0) };
  }

  /**
   * Returns the longest part of a prompt that some endpoint has prefilled before, whether it still holds it or not.
   * `own` is the record of the prompt itself, which does not count.
   */
  prefilled({ boundaries }: PromptShape, own?: SentPrompt): PrefilledPart | undefined {
    const isKnown = this.#sent.has(boundaries[1]?.hash ?? "");
    for (let index = isKnown ? boundaries.length - 1 : 0; index >= 0; index -= 1) {
      const prompts = this.#sent.get(boundaries[index]?.hash ?? "");
      const prompt = prompts?.find((one) => one !== own && one.state === "prefilled");
      if (prompt) return { index, prompt };
    }
    return undefined;
  }

  /** Removes the refuted beliefs about an endpoint that has left: the others end with its `startedAtMs`. */
  forget(address: string): void {
    this.#evictedUntilMs.delete(address);
  }

  /** Adds the holders of a prompt up to one of its boundaries to `found`. Returns whether there are any. */
  #addHolders(
    found: Map<string, HeldPart>,
    { boundaries, lastTurn }: PromptShape,
    index: number,
    nowMs: number,
    tokensPerByte: number,
  ): boolean {
    const boundary = boundaries[index];
    if (!boundary) return false;
    const { hash, bytes } = boundary;
    const mostTail = ((boundaries[index + 1]?.bytes ?? bytes) - bytes) * tokensPerByte;
    let isHeld = false;
    for (const { address, tokens, tailTokens, lowerTokens: lower = 0 } of this.announced.holders(hash)) {
      isHeld = true;
      if (found.has(address)) continue;
      const usableTailTokens = Math.min(tailTokens, mostTail);
      const lowerTokens = Math.max(0, lower - (tailTokens - usableTailTokens));
      const part = { index, bytes, tokens, tailTokens, usableTailTokens, lowerTokens };
      found.set(address, { ...part, usedAtMs: undefined, prefilled: true });
    }
    for (const prompt of this.#sent.get(hash) ?? NOTHING) {
      const { address, usedAtMs } = prompt;
      const prefilled = prompt.state === "prefilled";
      if (!this.#isBelieved(prompt, nowMs) || (prefilled && this.announced.fillOf(address))) continue;
      isHeld = true;
      if (found.has(address)) continue;
      const tokens = bytes * prompt.tokensPerByte;
      const tailTokens = prompt.digest === hash && index <= (lastTurn ?? -1) ? prompt.answerTokens : 0;
      // Counted as saved, an answer that nothing announces drew conversations back to busy endpoints of full caches.
      found.set(address, {
        index,
        bytes,
        tokens,
        tailTokens,
        usableTailTokens: 0,
        lowerTokens: 0,
        usedAtMs,
        prefilled,
      });
    }
    return isHeld;
  }

  #isBelieved({ address, state, life, usedAtMs, expiresAtMs }: SentPrompt, nowMs: number): boolean {
    if (state === "withdrawn" || nowMs >= expiresAtMs || life !== this.endpoints.get(address)?.startedAtMs)
      return false;
    return usedAtMs > (this.#evictedUntilMs.get(address) ?? Number.NEGATIVE_INFINITY);
  }
}

/** Returns the prompts with a prefix after one more was sent: of its endpoint, one other stays in case it fails. */
function withNewest(prompt: SentPrompt, before: readonly SentPrompt[]): readonly SentPrompt[] {
  let kept: SentPrompt | undefined;
  for (const one of before)
    if (one.address === prompt.address && one.state !== "withdrawn")
      if (!kept || (kept.state !== "prefilled" && one.state === "prefilled")) kept = one;
  const prompts = [prompt];
  for (const one of before)
    if (one === kept || (one.address !== prompt.address && one.state !== "withdrawn")) prompts.push(one);
  return prompts.slice(0, MAX_PROMPTS);
}
