import { BoundedMap } from "../prefixes/bounded-map.ts";

/** The most sessions that are remembered, some 200 bytes each, and as much again for those of which others told. */
const MAX_SESSIONS = 20_000;
/** The time in which what a session was served, and wanted, counts half of it, in milliseconds: many turns of an agent. */
const HALF_LIFE_MS = 600_000;
/** The most sessions that are told of at once, those that changed last. */
const MAX_TOLD_SESSIONS = 256;
/**
 * The time for which a change is told, in milliseconds: it is told several times, as only the newest that a gateway
 * tells is kept for the others, and one of them may have missed it.
 */
const TOLD_MS = 30_000;
/** The most gateways of which it is remembered what all their sessions were served. */
const MAX_GATEWAYS = 256;
const PER_SECOND = 100;

/** Seconds for which somebody was served and for which they wanted to be, as they count at some moment. */
export type Seconds = { readonly served: number; readonly wanted: number };

/** What a gateway tells of one session: what it itself has served of it, by how it counts at the moment of telling. */
export type ToldSession = Seconds & {
  /** The keyed digest of the session, which all gateways make alike. */
  readonly session: string;
};

/** What a gateway tells of all sessions that it served, and of those that it served of late. */
export type ToldAccounts = Seconds & { readonly sessions: readonly ToldSession[] };

type Account = Seconds & { readonly atMs: number };

/**
 * Keeps account of the seconds that each session was served and wanted to be. What was earlier counts less. The turns of
 * a session come in at any gateway: each tells the others what it has served, so that all know the whole.
 */
export class SessionAccounts {
  readonly #own = new BoundedMap<string, Account>(MAX_SESSIONS);
  /** What each of the other gateways has told of a session, by the gateway. */
  readonly #told = new BoundedMap<string, Map<string, Account>>(MAX_SESSIONS);
  readonly #changed = new BoundedMap<string, number>(MAX_TOLD_SESSIONS);
  /** What each of the other gateways has told of all its sessions. */
  readonly #toldOfAll = new BoundedMap<string, Account>(MAX_GATEWAYS);
  #all: Account = { served: 0, wanted: 0, atMs: 0 };

  /** Counts more seconds of a session at the monotonic time `nowMs`. */
  count(session: string, more: Seconds, nowMs: number): void {
    this.#own.set(session, { ...sum(decayed(this.#own.get(session), nowMs), more), atMs: nowMs });
    this.#all = { ...sum(decayed(this.#all, nowMs), more), atMs: nowMs };
    this.#changed.set(session, nowMs);
  }

  /** Returns what a session was served, by this gateway and by those that told of it. */
  of(session: string, nowMs: number): Seconds {
    let seconds = decayed(this.#own.get(session), nowMs);
    for (const account of this.#told.get(session)?.values() ?? []) seconds = sum(seconds, decayed(account, nowMs));
    return seconds;
  }

  /** Returns what all sessions together were served, by this gateway and by the others. */
  all(nowMs: number): Seconds {
    let seconds = decayed(this.#all, nowMs);
    for (const [, account] of this.#toldOfAll) seconds = sum(seconds, decayed(account, nowMs));
    return seconds;
  }

  /** Returns what this gateway has to tell of what it served. */
  tell(nowMs: number): ToldAccounts {
    const sessions: ToldSession[] = [];
    for (const [session, atMs] of this.#changed)
      if (nowMs - atMs <= TOLD_MS) sessions.push({ session, ...rounded(decayed(this.#own.get(session), nowMs)) });
    return { ...rounded(decayed(this.#all, nowMs)), sessions };
  }

  /** Takes what another gateway told at the monotonic time `atMs`; it counts instead of what that one told before. */
  hear(gateway: string, { served, wanted, sessions }: ToldAccounts, atMs: number): void {
    this.#toldOfAll.set(gateway, { served, wanted, atMs });
    for (const { session, ...seconds } of sessions) {
      const accounts = this.#told.get(session) ?? new Map<string, Account>();
      accounts.set(gateway, { ...seconds, atMs });
      this.#told.set(session, accounts);
    }
  }
}

/** Returns what an account that was kept at an earlier moment counts now; nothing where there is none. */
function decayed(account: Account | undefined, nowMs: number): Seconds {
  if (!account) return { served: 0, wanted: 0 };
  const share = 0.5 ** ((nowMs - account.atMs) / HALF_LIFE_MS);
  return { served: account.served * share, wanted: account.wanted * share };
}

function sum(one: Seconds, other: Seconds): Seconds {
  return { served: one.served + other.served, wanted: one.wanted + other.wanted };
}

/** Rounds to hundredths of a second: nobody is ranked by less, and all is told again every few seconds. */
function rounded({ served, wanted }: Seconds): Seconds {
  return { served: Math.round(served * PER_SECOND) / PER_SECOND, wanted: Math.round(wanted * PER_SECOND) / PER_SECOND };
}
