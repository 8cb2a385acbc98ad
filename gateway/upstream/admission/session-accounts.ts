import { BoundedMap } from "../../../deploy/runtime/memory/bounded-map.ts";

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

/** Seconds as they counted at `atMs`, in monotonic milliseconds. */
type Account = { served: number; wanted: number; atMs: number };

/**
 * Keeps account of the seconds that each session was served and wanted to be. What was earlier counts less. The turns of
 * a session come in at any gateway: each tells the others what it has served, so that all know the whole.
 */
export class SessionAccounts {
  readonly #own = new BoundedMap<string, Account>(MAX_SESSIONS);
  /** What each of the other gateways has told of a session, by the gateway. */
  readonly #told = new BoundedMap<string, Map<string, Account>>(MAX_SESSIONS);
  /** What each of the other gateways has told of all its sessions. */
  readonly #toldOfAll = new BoundedMap<string, Account>(MAX_GATEWAYS);
  readonly #all: Account = { served: 0, wanted: 0, atMs: 0 };

  /** Counts more seconds of a session at the monotonic time `nowMs`. */
  count(session: string, more: Seconds, nowMs: number): void {
    const account = this.#own.get(session) ?? { served: 0, wanted: 0, atMs: nowMs };
    add(account, more, nowMs);
    add(this.#all, more, nowMs);
    // The one that changed last comes first where they are told.
    this.#own.set(session, account);
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
    for (const [, account] of this.#toldOfAll.newestFirst()) seconds = sum(seconds, decayed(account, nowMs));
    return seconds;
  }

  /** Returns what this gateway has to tell of what it served. */
  tell(nowMs: number): ToldAccounts {
    const sessions: ToldSession[] = [];
    for (const [session, account] of this.#own.newestFirst()) {
      if (sessions.length === MAX_TOLD_SESSIONS || nowMs - account.atMs > TOLD_MS) break;
      sessions.push({ session, ...rounded(decayed(account, nowMs)) });
    }
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

function sum(one: Seconds, other: Seconds): Seconds {
  return { served: one.served + other.served, wanted: one.wanted + other.wanted };
}

/** Rounds to hundredths of a second: nobody is ranked by less, and all is told again every few seconds. */
function rounded({ served, wanted }: Seconds): Seconds {
  return { served: Math.round(served * PER_SECOND) / PER_SECOND, wanted: Math.round(wanted * PER_SECOND) / PER_SECOND };
}
