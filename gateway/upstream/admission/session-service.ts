import { BoundedMap } from "../prefixes/bounded-map.ts";

/** The most sessions that are remembered, some 200 bytes each. */
const MAX_SESSIONS = 20_000;
/** The time in which what a session was served, and wanted, counts half of it, in milliseconds: many turns of an agent. */
const HALF_LIFE_MS = 600_000;
/**
 * The share of the time for which it wants to run that a session is due to run. A crowded fleet serves a fifth of it and
 * less, and whoever got half of what the others get has no ground to complain.
 */
const DUE_SHARE = 0.1;
/** How much earlier a turn is due in which a user waits, in seconds. */
const USER_LEAD_SECONDS = 10;
/** More seconds than any process runs for. */
const FOREVER_SECONDS = 1e9;

/** The rank of a request that waits for a place alone, as all ranks of `FairTurns`: higher ones are served first. */
export const FIRST_RANK = 0;

/** The rank of a turn that has waited for its prefill for as long as it may. */
export const OVERDUE_RANK = FIRST_RANK - 1;

/** What a session was served and for how long it wanted to be, in seconds, as it counted at a moment. */
type Account = { readonly served: number; readonly wanted: number; readonly atMs: number };

/** A turn of a session that waits for its prefill. */
export type WaitingTurn = {
  /** The session that the turn belongs to. */
  readonly session: string;
  /** Whether the turn begins with a message of the user, not with what a tool returned. */
  readonly ofUser: boolean;
  /** The time that its prefill takes, in seconds. */
  readonly seconds: number;
  /** Monotonic milliseconds at which the turn began to wait. */
  readonly sinceMs: number;
  /** Whether the turn has waited for as long as it may. */
  readonly overdue: boolean;
};

/**
 * Remembers how much each session was served of late, in seconds of prefill and of answers, beside the time for which it
 * wanted to be served, and ranks the turns that wait by it: the session that got the smallest share comes first. A turn
 * that takes long may wait long, while a session whose turns are short soon has waited for many times of what it wants.
 * Sub-agents count to the session that they work for.
 */
export class SessionService {
  readonly #accounts = new BoundedMap<string, Account>(MAX_SESSIONS);

  /** Counts `seconds` of prefill or of an answer that a session gets at the monotonic time `nowMs`. */
  serve(session: string, seconds: number, nowMs: number): void {
    const { served, wanted } = this.#of(session, nowMs);
    this.#accounts.set(session, { served: served + seconds, wanted, atMs: nowMs });
  }

  /**
   * Counts `seconds` for which a turn of a session wanted to run, up to the monotonic time `nowMs`: from its coming to the
   * end of its answer, or until it was given up.
   */
  want(session: string, seconds: number, nowMs: number): void {
    const { served, wanted } = this.#of(session, nowMs);
    this.#accounts.set(session, { served, wanted: wanted + seconds, atMs: nowMs });
  }

  /**
   * Returns the rank of a turn among those of its tenant that wait: overdue ones before all others, these by when the
   * session will have had less than its due share, its coming prefill counted. What was served earlier counts less.
   */
  rankOf({ session, ofUser, seconds, sinceMs, overdue }: WaitingTurn, nowMs: number): number {
    if (overdue) return OVERDUE_RANK;
    const { served, wanted } = this.#of(session, nowMs);
    const patienceSeconds = (served + seconds) / DUE_SHARE - wanted - (ofUser ? USER_LEAD_SECONDS : 0);
    const dueSeconds = sinceMs / 1_000 + patienceSeconds;
    return OVERDUE_RANK - FOREVER_SECONDS - Math.min(Math.max(dueSeconds, 1 - FOREVER_SECONDS), FOREVER_SECONDS);
  }

  #of(session: string, nowMs: number): Account {
    const { served, wanted, atMs } = this.#accounts.get(session) ?? { served: 0, wanted: 0, atMs: nowMs };
    const share = 0.5 ** ((nowMs - atMs) / HALF_LIFE_MS);
    return { served: served * share, wanted: wanted * share, atMs: nowMs };
  }
}
