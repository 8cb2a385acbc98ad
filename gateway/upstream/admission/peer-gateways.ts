import type { SharedConversations, ToldConversation } from "../load-balancing/policy.ts";
import type { SessionAccounts, ToldAccounts } from "./session-accounts.ts";

/** The time for which it is believed what a gateway told of its turns, in milliseconds: some times as long as it takes. */
const BELIEVED_MS = 15_000;

/** What a gateway tells the others of the sessions of a cluster, and of the turns that wait there for their prefill. */
export type ToldTurns = ToldAccounts & {
  /** The seconds until the first of its turns is due that wait, below 0 for one that is late; null where none waits. */
  readonly dueSeconds: number | null;
  /** Where the conversations are that it placed of late. */
  readonly conversations: readonly ToldConversation[];
};

/** What a gateway knows of itself. */
export type PeerGatewaysParts = {
  /** What it has served of each session. */
  readonly accounts: SessionAccounts;
  /** Returns the monotonic milliseconds at which the first of its turns is due that wait; undefined where none waits. */
  readonly firstDueMs: () => number | undefined;
  /** Where conversations are; undefined where its policy does not go by them. */
  readonly conversations: SharedConversations | undefined;
};

/**
 * What the gateways before the same endpoints tell each other: what they have served of each session, whose turns come in
 * at any of them, where their conversations are, and how urgent what waits there is, as only one of them can have an
 * endpoint that becomes idle.
 */
export class PeerGateways {
  readonly #parts: PeerGatewaysParts;
  readonly #others = new Map<string, { readonly dueMs: number; readonly atMs: number }>();
  /** When the first turn of this gateway was due when it was last told, as fresh as what the others tell. */
  #dueMs = Number.POSITIVE_INFINITY;

  /** Begins without others. */
  constructor(parts: PeerGatewaysParts) {
    this.#parts = parts;
  }

  /** Returns what this gateway has to tell at the monotonic time `nowMs`. */
  tell(nowMs: number): ToldTurns {
    const dueMs = this.#parts.firstDueMs();
    this.#dueMs = dueMs ?? Number.POSITIVE_INFINITY;
    const dueSeconds = dueMs === undefined ? null : Math.round((dueMs - nowMs) / 1_000);
    const conversations = this.#parts.conversations?.tell(nowMs) ?? [];
    return { ...this.#parts.accounts.tell(nowMs), dueSeconds, conversations };
  }

  /** Takes what another gateway told at the monotonic time `atMs`. */
  hear(gateway: string, told: ToldTurns, atMs: number): void {
    this.#parts.accounts.hear(gateway, told, atMs);
    this.#parts.conversations?.hear(told.conversations, atMs);
    const { dueSeconds } = told;
    const dueMs = dueSeconds === null ? Number.POSITIVE_INFINITY : atMs + dueSeconds * 1_000;
    this.#others.set(gateway, { dueMs, atMs });
  }

  /**
   * Returns which part of the others have a turn that is due before all of this gateway's, from 0 to 1; undefined where
   * nobody has told anything of late.
   */
  moreUrgent(nowMs: number): number | undefined {
    let sooner = 0;
    for (const [gateway, { dueMs, atMs }] of this.#others)
      if (nowMs - atMs > BELIEVED_MS) this.#others.delete(gateway);
      else sooner += Number(dueMs < this.#dueMs);
    return this.#others.size === 0 ? undefined : sooner / this.#others.size;
  }
}
