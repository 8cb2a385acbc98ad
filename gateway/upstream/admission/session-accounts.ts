import { BoundedMap } from "../../../deploy/runtime/memory/bounded-map.ts";

/** The most sessions that are remembered, some 200 bytes each. */
const MAX_SESSIONS = 20_000;
/** The time in which what a session was served, and wanted, counts half of it, in milliseconds: many turns of an agent. */
const HALF_LIFE_MS = 600_000;

/** Seconds for which somebody was served and for which they wanted to be, as they count at some moment. */
export type Seconds = { readonly served: number; readonly wanted: number };

/** Seconds as they counted at `atMs`, in monotonic milliseconds. */
type Account = { served: number; wanted: number; atMs: number };

/** Keeps account of the seconds that each session was served here and wanted to be. What was earlier counts less. */
export class SessionAccounts {
  readonly #sessions = new BoundedMap<string, Account>(MAX_SESSIONS);
  readonly #all: Account = { served: 0, wanted: 0, atMs: 0 };

  /** Counts more seconds of a session at the monotonic time `nowMs`. */
  count(session: string, more: Seconds, nowMs: number): void {
    const account = this.#sessions.get(session) ?? { served: 0, wanted: 0, atMs: nowMs };
    add(account, more, nowMs);
    add(this.#all, more, nowMs);
    this.#sessions.set(session, account);
  }

  /** Returns what a session was served. */
  of(session: string, nowMs: number): Seconds {
    return decayed(this.#sessions.get(session), nowMs);
  }

  /** Returns what all sessions together were served. */
  all(nowMs: number): Seconds {
    return decayed(this.#all, nowMs);
  }
}

/** Adds to an account, which changes in place: every request counts several times. */
function add(account: Account, { served, wanted }: Seconds, nowMs: number): void {
  const share = shareAt(account, nowMs);
  account.served = account.served * share + served;
  account.wanted = account.wanted * share + wanted;
  account.atMs = nowMs;
}

/** Returns the share that is left of what an account counted at its own moment. */
function shareAt({ atMs }: Account, nowMs: number): number {
  return nowMs === atMs ? 1 : 0.5 ** ((nowMs - atMs) / HALF_LIFE_MS);
}

/** Returns what an account that was kept at an earlier moment counts now; nothing where there is none. */
function decayed(account: Account | undefined, nowMs: number): Seconds {
  if (!account) return { served: 0, wanted: 0 };
  const share = shareAt(account, nowMs);
  return { served: account.served * share, wanted: account.wanted * share };
}
