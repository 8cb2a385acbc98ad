import { type Seconds, SessionAccounts } from "./session-accounts.ts";

/**
 * The part of the share of its time that a session gets on the average, that each session is due to get. It is less than
 * all, so that something is left for the turns that are due only because they have waited for as long as they may.
 */
const DUE_PART = 0.8;
/** What is taken for the seconds of all sessions before any are known: a crowded fleet serves an eighth of what is wanted. */
const AT_FIRST = { served: 7.5, wanted: 60 };
/** How much earlier a turn is due in which a user waits, in seconds. */
const USER_LEAD_SECONDS = 10;
/** More seconds than any process runs for. */
const FOREVER_SECONDS = 1e9;

/** The rank of a request that waits for a place alone, as all ranks of `FairTurns`: higher ones are served first. */
export const FIRST_RANK = 0;

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
  /** Monotonic milliseconds at which the turn is due at the latest. */
  readonly latestMs: number;
};

/**
 * Remembers how much each session was served of late, in seconds of prefill and of answers, beside the time for which it
 * wanted to be served, and ranks the turns that wait by when their session will have got less of it than most of what the
 * sessions get on the average. A turn that takes long may wait long, while a session whose turns are short soon has waited
 * for many times of what it wants. Sub-agents count to the session that they work for.
 */
export class SessionService {
  readonly #accounts: SessionAccounts;

  /** Ranks by these accounts. */
  constructor(accounts = new SessionAccounts()) {
    this.#accounts = accounts;
  }

  /** Counts `seconds` of prefill or of an answer that a session gets at the monotonic time `nowMs`. */
  serve(session: string, seconds: number, nowMs: number): void {
    this.#accounts.count(session, { served: seconds, wanted: 0 }, nowMs);
  }

  /** Counts more of both at once: the turn of a session that is over. */
  count(session: string, more: Seconds, nowMs: number): void {
    this.#accounts.count(session, more, nowMs);
  }

  /**
   * Counts `seconds` for which a turn of a session wanted to run, up to the monotonic time `nowMs`, and was given up.
   */
  want(session: string, seconds: number, nowMs: number): void {
    this.#accounts.count(session, { served: 0, wanted: seconds }, nowMs);
  }

  /**
   * Returns the rank of a turn among those of its tenant that wait, by when it is due: when its session will have had less
   * than its due share, the coming prefill counted, or else at the latest. What was served earlier counts less.
   */
  rankOf({ session, ofUser, seconds, sinceMs, latestMs }: WaitingTurn, nowMs: number): number {
    const { served, wanted } = this.#accounts.of(session, nowMs);
    const patienceSeconds = (served + seconds) / this.#dueShare(nowMs) - wanted - (ofUser ? USER_LEAD_SECONDS : 0);
    const dueSeconds = Math.min(sinceMs / 1_000 + patienceSeconds, latestMs / 1_000);
    return FIRST_RANK - FOREVER_SECONDS - Math.min(Math.max(dueSeconds, 1 - FOREVER_SECONDS), FOREVER_SECONDS);
  }

  /** Returns the share of the time for which it wants to run that a session is due to run; above 0. */
  #dueShare(nowMs: number): number {
    const { served, wanted } = this.#accounts.all(nowMs);
    return DUE_PART * Math.min(1, (AT_FIRST.served + served) / (AT_FIRST.wanted + wanted));
  }
}
