import { BoundedMap } from "../../../../../deploy/runtime/memory/bounded-map.ts";
import type { SharedConversations, ToldConversation } from "../../policy.ts";

/**
 * The time for which a conversation belongs to the working set of its endpoint after its last use, in milliseconds: nine
 * of ten turns of coding agents come sooner.
 */
export const WORKING_SET_MS = 300_000;

/** The most conversations that are told of at once, those that were placed last. */
const MAX_TOLD = 128;
/**
 * The time for which a placement is told, in milliseconds: it is told several times, as only the newest that a gateway
 * tells is kept for the others, and one of them may have missed it.
 */
const TOLD_MS = 30_000;
/** The time for which others are taken to tell all that they place, in milliseconds: some times as long as it takes. */
const BELIEVED_MS = 15_000;

/** What a conversation takes up in the cache of the endpoint that had it last, and whether this gateway placed it. */
type Use = { readonly address: string; readonly tokens: number; readonly atMs: number; readonly isOwn: boolean };

/**
 * Keeps account of how many tokens the conversations of late take up on each endpoint: those whose next turn is to be
 * expected. What else is in a cache may go at no loss. Gateways before the same endpoints tell each other, as each of
 * them places a part of the turns only.
 */
export class WorkingSets implements SharedConversations {
  /** The last use of each conversation. */
  readonly #uses = new BoundedMap<string, Use>();
  readonly #tokens = new Map<string, number>();
  /** When another gateway last told of something that it placed. */
  #heardMs = Number.NEGATIVE_INFINITY;

  /** Notes that the endpoint at `address` has a conversation of `tokens` tokens now, and nobody else any more. */
  used(conversation: string, address: string, tokens: number, nowMs: number): void {
    this.#note(conversation, { address, tokens, atMs: nowMs, isOwn: true });
  }

  /** Returns the conversations that this gateway placed of late, the last ones first. */
  tell(nowMs: number): readonly ToldConversation[] {
    const told: ToldConversation[] = [];
    for (const [conversation, { address, tokens, atMs, isOwn }] of this.#uses.newestFirst()) {
      if (!isOwn) continue;
      if (told.length === MAX_TOLD || nowMs - atMs > TOLD_MS) break;
      told.push({ conversation, address, tokens: Math.round(tokens), ageMs: Math.round(nowMs - atMs) });
    }
    return told;
  }

  /** Takes what another gateway told at the monotonic time `atMs`; of a conversation its last use counts. */
  hear(told: readonly ToldConversation[], atMs: number): void {
    // Nobody may ask here for hours, while others tell.
    this.#dropOld(atMs);
    if (told.length > 0) this.#heardMs = Math.max(this.#heardMs, atMs);
    for (const { conversation, address, tokens, ageMs } of told) {
      const usedMs = atMs - ageMs;
      const before = this.#uses.get(conversation);
      if (before === undefined || before.atMs < usedMs)
        this.#note(conversation, { address, tokens, atMs: usedMs, isOwn: false });
    }
  }

  /** The number of conversations that are remembered. */
  get size(): number {
    return this.#uses.size;
  }

  /** Returns whether others have told of late where they placed their conversations. */
  isShared(nowMs: number): boolean {
    return nowMs - this.#heardMs <= BELIEVED_MS;
  }

  /** Returns the tokens of the conversations of late on an endpoint, at the monotonic time `nowMs`. */
  tokensOn(address: string, nowMs: number): number {
    this.#dropOld(nowMs);
    return this.#of(address);
  }

  /** Drops what is known of an endpoint that has left. */
  forget(address: string): void {
    for (const [conversation, use] of this.#uses.newestFirst()) if (use.address === address) this.#drop(conversation);
  }

  #dropOld(nowMs: number): void {
    let { oldest } = this.#uses;
    while (oldest && nowMs - oldest.value.atMs >= WORKING_SET_MS) {
      this.#drop(oldest.key);
      ({ oldest } = this.#uses);
    }
  }

  #note(conversation: string, use: Use): void {
    const before = this.#uses.get(conversation);
    if (before) this.#count(before.address, -before.tokens);
    this.#uses.set(conversation, use);
    this.#count(use.address, use.tokens);
  }

  #of(address: string): number {
    return this.#tokens.get(address) ?? 0;
  }

  #count(address: string, more: number): void {
    const tokens = this.#of(address) + more;
    if (tokens > 0) this.#tokens.set(address, tokens);
    else this.#tokens.delete(address);
  }

  #drop(conversation: string): void {
    const use = this.#uses.get(conversation);
    if (!use) return;
    this.#uses.delete(conversation);
    this.#count(use.address, -use.tokens);
  }
}
