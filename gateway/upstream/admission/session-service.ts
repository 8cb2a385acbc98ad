import { BoundedMap } from "../prefixes/bounded-map.ts";

/** The most sessions that are remembered, some 200 bytes each. */
const MAX_SESSIONS = 20_000;
/** The time in which what a session was served counts half of it, in milliseconds: some turns of an agent. */
const HALF_LIFE_MS = 300_000;
/** Above all seconds of service: what comes first whatever was served. */
const TIER = 1e6;

/** The rank of a request that waits for a place alone, as all ranks of `FairTurns`: higher ones are served first. */
export const FIRST_RANK = 0;

/** The rank of a turn that has waited for its prefill for as long as it may. */
export const OVERDUE_RANK = FIRST_RANK - 1;

type Service = { readonly seconds: number; readonly atMs: number };

/** A turn of a session that waits for its prefill. */
export type WaitingTurn = {
  /** The session that the turn belongs to. */
  readonly session: string;
  /** Whether the turn begins with a message of the user, not with what a tool returned. */
  readonly ofUser: boolean;
  /** The time that its prefill takes, in seconds. */
  readonly seconds: number;
  /** Whether the turn has waited for as long as it may. */
  readonly overdue: boolean;
};

/**
 * Remembers how much each session was served of late, in seconds of prefill and of answers, and ranks the turns that
 * wait by it: the least served session comes first. Sub-agents count to the session that they work for.
 */
export class SessionService {
  readonly #served = new BoundedMap<string, Service>(MAX_SESSIONS);

  /** Counts `seconds` of prefill or of an answer that a session gets at the monotonic time `nowMs`. */
  serve(session: string, seconds: number, nowMs: number): void {
    this.#served.set(session, { seconds: this.of(session, nowMs) + seconds, atMs: nowMs });
  }

  /** Returns what a session was served of late, in seconds; the longer ago, the less it counts. */
  of(session: string, nowMs: number): number {
    const served = this.#served.get(session);
    return served ? served.seconds * 0.5 ** ((nowMs - served.atMs) / HALF_LIFE_MS) : 0;
  }

  /**
   * Returns the rank of a turn among those of its tenant that wait: overdue ones before all others, then those in which
   * a user waits, then by what its session was served and its prefill comes to.
   */
  rankOf({ session, ofUser, seconds, overdue }: WaitingTurn, nowMs: number): number {
    if (overdue) return OVERDUE_RANK;
    const service = Math.min(TIER - 1, this.of(session, nowMs) + seconds);
    return OVERDUE_RANK - (ofUser ? 1 : 2) * TIER - service;
  }
}
