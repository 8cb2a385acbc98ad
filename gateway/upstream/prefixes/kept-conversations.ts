import { LRUCache } from "lru-cache";
import { type Boundary, type PromptShape, promptBytes } from "../load-balancing/boundary-hashes.ts";
import type { LedgerRequest } from "./changed-prompts.ts";

/** The most endpoints whose conversations are remembered: of those that are gone nobody says so. */
const MAX_ENDPOINTS = 1_024;
/** The most conversations that are remembered of an endpoint, up to 10 KB each. */
const MAX_CONVERSATIONS = 1_024;
/** The boundaries at the beginning and at the end of a conversation that are remembered. */
const REMEMBERED = { head: 2, tail: 62 };
/** How many times as long as a part of it a prompt may be to take a conversation for that part, which loses the rest. */
const MOST_TIMES = 2;
/** What a part of a prompt has more than another one to be preferred: about 32 tokens, as bytes of text. */
const NEARLY_BYTES = 128;

/** What of a request matters for what an endpoint finds of its prompt. */
export type Asked = Pick<LedgerRequest, "shape" | "cacheKey">;

/** What is known of an endpoint, and of the moment at which a request goes there. */
export type Keeper = {
  /** The address of the endpoint. */
  readonly address: string;
  /** How many conversations it keeps. */
  readonly most: number;
  /** What changes whenever it begins with an empty cache. */
  readonly life: number | undefined;
  /** Monotonic milliseconds before which it has pushed out what nobody has used since. */
  readonly goneBeforeMs: number;
};

/** A conversation in the cache of an endpoint. */
type Conversation = {
  /** Whether a request has it; no other one can. */
  busy: boolean;
  /** The boundaries of its newest prompt that are remembered; none while none is read. */
  head: readonly Boundary[];
  tail: readonly Boundary[];
  /** The index of the first boundary in `tail`. */
  from: number;
  /** The tokens of the prompt, and those of its answer that stay behind it. */
  inputTokens: number;
  answerTokens: number;
  cacheKey: string;
  /** Monotonic milliseconds at which it was last used. */
  atMs: number;
};

type Kept = { readonly life: number | undefined; readonly conversations: Set<Conversation> };

/** A request that an endpoint has taken up. */
export type KeptTurn = {
  /** The tokens of its prompt that the endpoint is expected to have. */
  readonly expectedTokens: number;
  /** Notes that the endpoint did not have the conversation that was expected, whatever else it found. */
  missed(): void;
  /** Notes that the endpoint has read the prompt, of so many tokens. */
  read(inputTokens: number): void;
  /** Notes that the whole answer is there, of which so many tokens stay for the next turn. */
  answered(tokens: number): void;
  /** Notes at that monotonic time in milliseconds that the request is over, however it ended. A second call does nothing. */
  ended(nowMs: number): void;
};

/**
 * Follows which conversations those endpoints have that cache whole ones and not blocks, by what this gateway has sent
 * them: the endpoint takes a conversation as `ModelDescription.kept_conversations` says, and gives up the one that was
 * used longest ago for one more than it keeps. It is bounded, and knows digests only.
 */
export class KeptConversations {
  readonly #kept = new LRUCache<string, Kept>({ max: MAX_ENDPOINTS });

  /** Begins a request, and returns what follows it. */
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
        // Of what was never read nothing stays.
        if (!conversations.delete(conversation) || conversation.inputTokens === 0) return;
        conversation.busy = false;
        conversation.atMs = nowMs;
        conversations.add(conversation);
      },
    };
  }

  /** Returns whether an endpoint has a conversation that the caller names by the same cache key. */
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
 * Returns whether an endpoint that keeps whole conversations takes one for a part of a prompt, up to the boundary at an
 * index. It does where the prompt goes on with all of it, where both have one cache key, or where the part is half of the
 * prompt: else the rest of the conversation is worth more.
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

/** What a conversation has of a prompt; `isOwn` says that all of its newest prompt. */
type Found = {
  readonly conversation: Conversation;
  readonly bytes: number;
  readonly isOwn: boolean;
  readonly tokens: number;
};

/**
 * Finds the conversation that an endpoint takes for a prompt: of those that have nearly the most of it, the one that the
 * prompt goes on with, or else the one that was used longest ago.
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

/** Returns what a conversation has of a prompt that would take it; undefined for one that would not. */
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
  // A digest is of everything before it: where one is the same, all before it are.
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

/** Gives up conversations until there are so many at most: those that no request has, the one used longest ago first. */
function makeRoom(conversations: Set<Conversation>, most: number): void {
  for (const conversation of conversations) {
    if (conversations.size <= most) return;
    if (!conversation.busy) conversations.delete(conversation);
  }
}
