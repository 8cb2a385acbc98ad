import { LRUCache } from "lru-cache";
import { type Boundary, type PromptShape, promptBytes } from "../load-balancing/boundary-hashes.ts";
import type { LedgerRequest } from "./changed-prompts.ts";

/** The most endpoints whose conversations are stored: the removal of an endpoint is not reported here. */
const MAX_ENDPOINTS = 1_024;
/** The most conversations stored per endpoint, up to 10 KB each. */
const MAX_CONVERSATIONS = 1_024;
/** The boundaries stored from the beginning and the end of a conversation. */
const REMEMBERED = { head: 2, tail: 62 };
/** The largest ratio of a prompt to its part at which it takes a conversation for that part, and loses the rest. */
const MOST_TIMES = 2;
/** The advantage in bytes by which one part of a prompt is preferred to another: about 32 tokens. */
const NEARLY_BYTES = 128;

/** The parts of a request by which an endpoint finds its prompt. */
export type Asked = Pick<LedgerRequest, "shape" | "cacheKey">;

/** An endpoint's state at the moment at which a request is sent there. */
export type Keeper = {
  readonly address: string;
  /** The most conversations that the endpoint keeps. */
  readonly most: number;
  /** Changes whenever the endpoint starts with an empty cache. */
  readonly life: number | undefined;
  /** The monotonic milliseconds before which it has evicted everything not used since. */
  readonly goneBeforeMs: number;
};

/** A conversation in the cache of an endpoint. */
type Conversation = {
  /** Whether a request uses it; no other request can. */
  busy: boolean;
  /** The stored boundaries of its newest prompt; empty before the first prefill. */
  head: readonly Boundary[];
  tail: readonly Boundary[];
  /** The index of the first boundary in `tail`. */
  from: number;
  /** The tokens of the prompt, and those of its answer that stay behind it. */
  inputTokens: number;
  answerTokens: number;
  cacheKey: string;
  /** Monotonic milliseconds of the last use. */
  atMs: number;
};

type Kept = { readonly life: number | undefined; readonly conversations: Set<Conversation> };

/** A request that an endpoint has started. */
export type KeptTurn = {
  /** The tokens of its prompt expected in the endpoint's cache. */
  readonly expectedTokens: number;
  /** Records that the endpoint did not hold the expected conversation, whatever else it found. */
  missed(): void;
  /** Records that the endpoint has prefilled the prompt of `inputTokens` tokens. */
  read(inputTokens: number): void;
  /** Records that the answer is complete, and how many of its tokens stay cached for the next turn. */
  answered(tokens: number): void;
  /** Records the end of the request, with any result. Idempotent. */
  ended(nowMs: number): void;
};

/**
 * Tracks the conversations on endpoints that cache whole conversations rather than blocks, by the requests that this
 * gateway sent: an endpoint assigns a conversation as described at `ModelDescription.kept_conversations`, and evicts
 * the least recently used one beyond its limit. It is bounded, and stores only digests.
 */
export class KeptConversations {
  readonly #kept = new LRUCache<string, Kept>({ max: MAX_ENDPOINTS });

  /** Begins a request, and returns the turn that follows it. */
  begin(asked: Asked, keeper: Keeper): KeptTurn {
    const { conversations } = this.#of(keeper);
    const found = findIn(conversations, asked);
    let conversation = found?.conversation ?? fresh();
    let isOver = false;
    const take = () => {
      conversation.busy = true;
      conversation.cacheKey = asked.cacheKey;
      conversations.add(conversation);
      makeRoom(conversations, Math.min(MAX_CONVERSATIONS, keeper.most));
    };
    take();
    return {
      expectedTokens: found?.tokens ?? 0,
      missed() {
        if (!found) return;
        conversations.delete(conversation);
        conversation = fresh();
        take();
      },
      read(inputTokens) {
        remember(conversation, asked.shape);
        conversation.inputTokens = inputTokens;
        conversation.answerTokens = 0;
      },
      answered(tokens) {
        conversation.answerTokens = tokens;
      },
      ended(nowMs) {
        if (isOver) return;
        isOver = true;
        // A conversation that was never prefilled leaves nothing.
        if (!conversations.delete(conversation) || conversation.inputTokens === 0) return;
        conversation.busy = false;
        conversation.atMs = nowMs;
        conversations.add(conversation);
      },
    };
  }

  /** Returns whether an endpoint holds a conversation with the caller's cache key. */
  names(address: string, cacheKey: string): boolean {
    if (cacheKey === "") return false;
    for (const conversation of this.#kept.get(address)?.conversations ?? [])
      if (conversation.cacheKey === cacheKey) return true;
    return false;
  }

  #of({ address, life, goneBeforeMs }: Keeper): Kept {
    const known = this.#kept.get(address);
    const kept = known?.life === life && known ? known : { life, conversations: new Set<Conversation>() };
    this.#kept.set(address, kept);
    for (const conversation of kept.conversations)
      if (!conversation.busy && conversation.atMs < goneBeforeMs) kept.conversations.delete(conversation);
    return kept;
  }
}

/**
 * Returns whether an endpoint that keeps whole conversations uses one for a part of a prompt, up to the boundary at an
 * index. It does where the prompt continues all of it, where both have one cache key, or where the part is half of the
 * prompt: otherwise the rest of the conversation is worth more.
 */
export function isTaken(
  shape: PromptShape,
  index: number,
  { isAll, isNamed }: Readonly<Record<"isAll" | "isNamed", boolean>>,
): boolean {
  return isAll || isNamed || promptBytes(shape) <= MOST_TIMES * (shape.boundaries[index]?.bytes ?? 0);
}

function fresh(): Conversation {
  return { busy: false, head: [], tail: [], from: 0, inputTokens: 0, answerTokens: 0, cacheKey: "", atMs: 0 };
}

/** The part of a prompt that a conversation holds; `isOwn`: all of its newest prompt. */
type Found = {
  readonly conversation: Conversation;
  readonly bytes: number;
  readonly isOwn: boolean;
  readonly tokens: number;
};

/**
 * Finds the conversation that an endpoint uses for a prompt: of those that hold nearly the most of it, the one that the
 * prompt continues, else the least recently used.
 */
function findIn(conversations: Iterable<Conversation>, asked: Asked): Found | undefined {
  let best: Found | undefined;
  for (const conversation of conversations) {
    const found = conversation.busy ? undefined : partOf(conversation, asked);
    if (!found) continue;
    const more = found.bytes - (best?.bytes ?? Number.NEGATIVE_INFINITY);
    const isBetterOwn = found.isOwn && !(best?.isOwn && best.tokens >= found.tokens);
    if (more > NEARLY_BYTES || (isBetterOwn && more > -NEARLY_BYTES)) best = found;
  }
  return best;
}

/** Returns the part of a prompt that a usable conversation holds; undefined for an unusable one. */
function partOf(conversation: Conversation, { shape, cacheKey }: Asked): Found | undefined {
  const index = commonIndex(conversation, shape.boundaries);
  const { bytes = 0 } = shape.boundaries[index] ?? {};
  if (bytes === 0) return undefined;
  const { bytes: allBytes = 0 } = conversation.tail.at(-1) ?? conversation.head.at(-1) ?? {};
  const isOwn = bytes === allBytes;
  const answerTokens = isOwn && index <= (shape.lastTurn ?? -1) ? conversation.answerTokens : 0;
  const isNamed = cacheKey !== "" && conversation.cacheKey === cacheKey;
  if (!isTaken(shape, index, { isAll: answerTokens > 0, isNamed })) return undefined;
  const tokens = Math.round((conversation.inputTokens * bytes) / allBytes) + answerTokens;
  return { conversation, bytes, isOwn, tokens };
}

/** Returns the index of the last boundary that a conversation and a prompt have in common; -1 for none. */
function commonIndex({ head, tail, from }: Conversation, boundaries: readonly Boundary[]): number {
  // A digest covers everything before it: if one is equal, all before it are.
  let low = 0;
  let high = Math.min(tail.length, boundaries.length - from);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tail[middle]?.hash === boundaries[from + middle]?.hash) low = middle + 1;
    else high = middle;
  }
  if (low > 0) return from + low - 1;
  return head.findLastIndex(({ hash }, index) => hash === boundaries[index]?.hash);
}

function remember(conversation: Conversation, { boundaries }: PromptShape): void {
  conversation.head = boundaries.slice(0, REMEMBERED.head);
  conversation.from = Math.max(conversation.head.length, boundaries.length - REMEMBERED.tail);
  conversation.tail = boundaries.slice(conversation.from);
}

/** Evicts conversations down to `most`: unused by any request, the least recently used first. */
function makeRoom(conversations: Set<Conversation>, most: number): void {
  for (const conversation of conversations) {
    if (conversations.size <= most) return;
    if (!conversation.busy) conversations.delete(conversation);
  }
}
