import { LRUCache } from "lru-cache";
import { type Boundary, headOf, type PromptShape, promptBytes } from "../load-balancing/boundary-hashes.ts";
import type { Loss } from "./cache-note.ts";
import { bytesUpTo, type LastPrompt, LastPrompts, lastPrompt, sameIn } from "./last-prompts.ts";

/** The most conversations whose last prompt is stored, up to 10 KB each. */
const MAX_CONVERSATIONS = 5_000;

/** The request that is followed. */
export type LedgerRequest = {
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
  /** The digest of the caller's own cache key, which nodes receive; empty where the caller gave none. */
  readonly cacheKey: string;
};

/** A request with the keys of its last prompts: its conversation, and its agent with a system part. */
export type NamedRequest = Omit<LedgerRequest, "cacheKey"> & { readonly conversation: string; readonly agent: string };

/** Stores the last prompts of conversations as digests, bounded, and finds the changes that clients made to them. */
export class ChangedPrompts {
  readonly #isHeld: (digest: string) => boolean;
  readonly #conversations = new LastPrompts(MAX_CONVERSATIONS);
  /** The newest prompt by affinity key and system part: a summarised conversation begins with another message. */
  readonly #newestOfAgent = new LRUCache<string, LastPrompt>({ max: MAX_CONVERSATIONS });
  /** The last prompts by affinity key: with other tools or another system message no part of a prompt is the same. */
  readonly #lastOfKey = new LastPrompts(MAX_CONVERSATIONS);

  /** `isHeld` returns whether an endpoint reports the prefix with a digest. */
  constructor(isHeld: (digest: string) => boolean) {
    this.#isHeld = isHeld;
  }

  /**
   * Returns the part of the conversation's last prompt that is missing from this one, if this is the first request
   * without it. With several gateways, an earlier request through another gateway may have been the first.
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
    // A reported prefix that this gateway has not seen passed through another gateway; a single gateway forgets the
    // middle.
    if (this.#isHeld(shape.boundaries[hasOthers ? message : turn]?.hash ?? "")) return undefined;
    // Later turns through other gateways would have replaced the last prompt of this one.
    const isPassed = hasOthers && turn >= last.from + last.tail.length;
    return isPassed && !this.#isHeld(last.tail.at(-1)?.hash ?? "") ? undefined : changed;
  }

  /**
   * Returns the prompt that a request continues, as far as that can be determined; undefined for none. `isAlone`: no
   * turn passed through another gateway.
   */
  #lastOf({ shape, affinityKey, conversation, agent }: NamedRequest, isAlone: boolean): LastPrompt | undefined {
    const last = this.#conversations.of(conversation, shape);
    if (last) return last;
    const ofAgent = this.#newestOfAgent.get(agent);
    // A prompt that is no summary and continues none may be another conversation of the same agent.
    if (ofAgent)
      return shape.lastTurn === undefined && changeOf(ofAgent, shape)?.reason !== "compaction" ? undefined : ofAgent;
    const ofKey = this.#lastOfKey.branches(affinityKey);
    const alike = ofKey.find((one) => isOfSameSizes(one, shape));
    // A gateway that has seen all turns of a session can attribute the change to the client; a summarised prompt is
    // long.
    return alike ?? (isAlone && shape.lastTurn !== undefined ? longest(ofKey) : undefined);
  }

  /** Stores the prompt of a request as the last one of its conversation. */
  note({ shape, affinityKey, conversation, agent }: NamedRequest): void {
    const last = lastPrompt(shape);
    this.#conversations.note(conversation, shape, last);
    this.#newestOfAgent.set(agent, last);
    this.#lastOfKey.note(affinityKey, shape, last);
  }
}

/** Returns a request with the keys under which it is stored. */
export function named({ shape, affinityKey }: LedgerRequest): NamedRequest {
  return {
    shape,
    affinityKey,
    conversation: `${affinityKey} ${headOf(shape)}`,
    agent: `${affinityKey} ${shape.boundaries[0]?.hash ?? ""}`,
  };
}

/** Returns the part of a conversation's last prompt that is missing from its next one; undefined if none. */
function changeOf(last: LastPrompt, shape: PromptShape): Loss | undefined {
  const { tail, from, begin } = last;
  const same = sameIn(last, shape);
  const end = tail.at(-1);
  if (same === from + tail.length - 1 || !end) return undefined;
  // Nothing is stored between beginning and tail: there the change is assumed to be as late as possible.
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
