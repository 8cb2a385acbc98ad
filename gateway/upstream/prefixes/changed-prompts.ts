import { LRUCache } from "lru-cache";
import { type Boundary, headOf, type PromptShape, promptBytes } from "../load-balancing/boundary-hashes.ts";
import type { Loss } from "./cache-note.ts";
import { bytesUpTo, type LastPrompt, LastPrompts, lastPrompt, sameIn } from "./last-prompts.ts";

/** The most conversations whose last prompt is remembered, up to 10 KB each. */
const MAX_CONVERSATIONS = 5_000;

/** The request that is followed. */
export type LedgerRequest = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
  /** The digest of the caller's own cache key, which nodes are told; empty where the caller gave none. */
  readonly cacheKey: string;
};

/** A request with the names by which its last prompts are remembered: its conversation, and its agent with a system part. */
export type NamedRequest = Omit<LedgerRequest, "cacheKey"> & { readonly conversation: string; readonly agent: string };

/** Remembers the last prompts of conversations, by digests and bounded, and finds what clients have changed in them. */
export class ChangedPrompts {
  readonly #isHeld: (digest: string) => boolean;
  readonly #conversations = new LastPrompts(MAX_CONVERSATIONS);
  /** The newest prompt by affinity key and system part: a conversation that is summarised begins with another message. */
  readonly #newestOfAgent = new LRUCache<string, LastPrompt>({ max: MAX_CONVERSATIONS });
  /** The last prompts by affinity key: with other tools or another system message nothing of a prompt is the same. */
  readonly #lastOfKey = new LastPrompts(MAX_CONVERSATIONS);

  /** Begins without a memory. `isHeld` returns whether an endpoint tells that it holds what a digest stands for. */
  constructor(isHeld: (digest: string) => boolean) {
    this.#isHeld = isHeld;
  }

  /**
   * Returns what of the conversation's last prompt is not in this one, where this request is the first without it. Where
   * there are several gateways, an earlier one that came by another may have been.
   */
  changedIn(request: NamedRequest, seenIndex: number | undefined, gateways: number): Loss | undefined {
    const { shape } = request;
    const hasOthers = gateways > 1;
    const last = this.#lastOf(request, gateways === 1);
    const changed = last && changeOf(last, shape);
    const message = changed?.changedMessage ?? 0;
    if (!last || !changed || (seenIndex ?? -1) >= message) return undefined;
    const turn = shape.lastTurn ?? -1;
    if (message > turn) return changed;
    // What is held and was not seen here came by another gateway; one that is alone forgets what is in the middle.
    if (this.#isHeld(shape.boundaries[hasOthers ? message : turn]?.hash ?? "")) return undefined;
    // Later turns of other gateways would have pushed out the last prompt of this one.
    const isPassed = hasOthers && turn >= last.from + last.tail.length;
    return isPassed && !this.#isHeld(last.tail.at(-1)?.hash ?? "") ? undefined : changed;
  }

  /**
   * Returns the prompt that a request goes on from, as far as that can be told; undefined for none. `isAlone` says that no
   * turn came by another gateway.
   */
  #lastOf({ shape, affinityKey, conversation, agent }: NamedRequest, isAlone: boolean): LastPrompt | undefined {
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

  /** Notes the prompt of a request, as the last one of its conversation. */
  note({ shape, affinityKey, conversation, agent }: NamedRequest): void {
    const last = lastPrompt(shape);
    this.#conversations.note(conversation, shape, last);
    this.#newestOfAgent.set(agent, last);
    this.#lastOfKey.note(affinityKey, shape, last);
  }
}

/** Returns a request with the names by which it is remembered. */
export function named({ shape, affinityKey }: LedgerRequest): NamedRequest {
  return {
    shape,
    affinityKey,
    conversation: `${affinityKey} ${headOf(shape)}`,
    agent: `${affinityKey} ${shape.boundaries[0]?.hash ?? ""}`,
  };
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
