import type { Boundary, PromptShape } from "../load-balancing/boundary-hashes.ts";
import type { HeldPrefixes } from "../load-balancing/held-prefixes.ts";
import type { Loss } from "./cache-note.ts";
import { ChangedPrompts, type LedgerRequest, named } from "./changed-prompts.ts";
import { isTaken, KeptConversations, type KeptTurn } from "./kept-conversations.ts";
import { type DeepestUse, ReadPrompts, type ReadPromptsParts } from "./read-prompts.ts";
import { SentRequest } from "./sent-request.ts";

/** The cluster state that a ledger reads. */
export type CacheLedgerParts = ReadPromptsParts & {
  /** Returns how many whole conversations an endpoint keeps; 0 where it caches by blocks, or does not report it. */
  readonly keptConversationsOf: (address: string) => number;
  /** The prefixes that the endpoints report in their caches. */
  readonly prefixes: HeldPrefixes;
};

/**
 * Explains the cache misses of each request of a cluster. It stores only digests, is bounded, and costs a few map
 * lookups for each request.
 */
export class CacheLedger {
  readonly #parts: CacheLedgerParts;
  readonly #read: ReadPrompts;
  readonly #kept = new KeptConversations();
  readonly #changed: ChangedPrompts;

  constructor(parts: CacheLedgerParts) {
    this.#parts = parts;
    this.#read = new ReadPrompts(parts);
    this.#changed = new ChangedPrompts((digest) => {
      const [holder] = parts.prefixes.holders(digest);
      return holder !== undefined;
    });
  }

  /**
   * Begins to follow a request sent to the endpoint at `address` at the monotonic time `nowMs`. The caller reports
   * prefill and answer to the result, and reads the explanation once when the engine has reported the cached tokens.
   */
  sent(request: LedgerRequest, address: string, nowMs: number): SentRequest {
    const { shape } = request;
    const known = named(request);
    const seen = this.#read.deepest(shape);
    const changed = this.#changed.changedIn(known, seen?.index, this.#parts.viewOf(address)?.gateways ?? 0);
    const passed = changed ? undefined : passedBy(shape, seen?.index);
    const losses = this.#lostToServers(shape, seen, { address, nowMs, isPassed: passed !== undefined });
    if (changed) losses.push(changed);
    // Without another cause for a loss in the part seen here, the other gateway accounts for that part as well.
    if (passed) losses.push(losses.length > 0 ? passed : { ...passed, fromBytes: 0 });
    // Before the request takes a conversation of its endpoint.
    const told = this.#parts.prefixes.fillOf(address) && this.#told(request, address);
    const kept = this.#keptTurn(request, address, nowMs);
    const expected = told ?? kept?.expectedTokens ?? this.#read.believed(shape, address, seen?.index ?? -1, nowMs);
    const facts = { shape, losses, expected, isNew: !seen && shape.lastTurn === undefined };
    return new SentRequest(facts, {
      kept,
      measured: () => this.#changed.note(known),
      prefilled: (inputTokens, atMs) => this.#read.read(shape, address, inputTokens, atMs),
    });
  }

  #keptTurn(request: LedgerRequest, address: string, nowMs: number): KeptTurn | undefined {
    const { keptConversationsOf, lifeOf, believedMs } = this.#parts;
    const most = keptConversationsOf(address);
    if (most === 0) return undefined;
    const goneBeforeMs = nowMs - believedMs(address);
    return this.#kept.begin(request, { address, most, life: lifeOf(address), goneBeforeMs });
  }

  /**
   * Returns the parts that endpoints have lost or hold elsewhere; `isPassed`: the previous turn passed through another
   * gateway.
   */
  #lostToServers(
    { boundaries, lastTurn }: PromptShape,
    seen: DeepestUse | undefined,
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
    // The part behind that held by the other endpoint was evicted there as well.
    if (elsewhere) return [elsewhere, { ...loss, reason: "evicted", fromTokens: elsewhere.upToTokens }];
    // Where endpoints do not report, the other gateway's placement of the conversation is unknown.
    if (isPassed && !prefixes.fillOf(address)) return [];
    if (usedOn === address || prefixes.fillOf(usedOn) || this.#read.isGone(use.prompt))
      return [{ ...loss, reason: "evicted" }];
    return [{ ...loss, reason: this.#read.isBelieved(use.prompt, nowMs) ? "moved" : "belief_expired" }];
  }

  /**
   * Returns the longest part of a prompt, up to the boundary at `lastIndex`, that an endpoint other than the one at
   * `address` reports; undefined where the one at `address` reports as much.
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
      // The tail behind a digest ends at the next digest.
      upToBytes = boundaries[index]?.bytes ?? 0;
    }
    return undefined;
  }

  /** Returns the tokens of a prompt that an endpoint reports as cached, as far as it reuses them. */
  #told({ shape, cacheKey }: LedgerRequest, address: string): number {
    const { boundaries, lastTurn } = shape;
    const { prefixes, keptConversationsOf } = this.#parts;
    const isKeeper = keptConversationsOf(address) > 0;
    for (let index = boundaries.length - 1; index >= 0; index -= 1) {
      for (const { address: at, tokens, tailTokens } of prefixes.holders(boundaries[index]?.hash ?? "")) {
        if (at !== address) continue;
        const isAll = tailTokens > 0 && index <= (lastTurn ?? -1);
        if (!isKeeper || isTaken(shape, index, { isAll, isNamed: this.#kept.names(address, cacheKey) }))
          return tokens + tailTokens;
      }
    }
    return 0;
  }
}

/**
 * Returns the part of the last turn that this gateway did not see, of a prompt seen up to a boundary; undefined if
 * none.
 */
function passedBy({ boundaries, lastTurn }: PromptShape, seenIndex = -1): Loss | undefined {
  if (lastTurn === undefined || seenIndex >= lastTurn) return undefined;
  const fromBytes = boundaries[seenIndex]?.bytes ?? 0;
  return { reason: "other_gateway", upToBytes: boundaries[lastTurn]?.bytes ?? 0, fromBytes, upToTokens: undefined };
}
