/** The minimum fair share of a judged session, in seconds: below it, a single wait dominates. */
const JUDGED_SECONDS = 60;

type Session = { servedMs: number; fairMs: number };

/** One turn of a session, from its arrival to the end of its answer. */
export type FollowedTurn = {
  /** Sets the share (0 to 1) of its full speed at which the node serves the turn from now on. */
  served(share: number): void;
  finished(): void;
};

/**
 * Accounts for the service time of each session (prefill and answers) and its fair share: at each moment the total
 * service divided by the sessions with open turns.
 */
export class FairShares {
  readonly #nowMs: () => number;
  readonly #sessions = new Map<string, Session>();
  readonly #open = new Set<() => void>();
  #wanting = 0;
  /** The sum of the shares at which turns are served. */
  #serving = 0;
  /** The fair share of a session with an open turn since the start, in milliseconds. */
  #fairMs = 0;
  #changedMs = 0;

  /** Begins at the time of `nowMs`, in milliseconds. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#changedMs = nowMs();
  }

  /** Adds a turn of a session. */
  arrived(name: string): FollowedTurn {
    this.#account();
    this.#wanting += 1;
    const session = this.#sessions.get(name) ?? { servedMs: 0, fairMs: 0 };
    this.#sessions.set(name, session);
    let fairMs = this.#fairMs;
    let share = 0;
    let sinceMs = this.#nowMs();
    const settle = () => {
      this.#account();
      session.fairMs += this.#fairMs - fairMs;
      fairMs = this.#fairMs;
      session.servedMs += share * (this.#nowMs() - sinceMs);
      sinceMs = this.#nowMs();
    };
    const served = (next: number) => {
      settle();
      this.#serving += next - share;
      share = next;
    };
    this.#open.add(settle);
    return {
      served,
      finished: () => {
        served(0);
        this.#open.delete(settle);
        this.#wanting -= 1;
      },
    };
  }

  /** Resets the accounts; open turns stay open. */
  reset(): void {
    for (const settle of this.#open) settle();
    for (const session of this.#sessions.values()) Object.assign(session, { servedMs: 0, fairMs: 0 });
  }

  /** Returns the service of each session divided by its fair share, for shares of at least a minute. */
  ratios(): number[] {
    for (const settle of this.#open) settle();
    return [...this.#sessions.values()]
      .filter(({ fairMs }) => fairMs >= JUDGED_SECONDS * 1_000)
      .map(({ servedMs, fairMs }) => servedMs / fairMs);
  }

  #account(): void {
    const nowMs = this.#nowMs();
    if (this.#wanting > 0) this.#fairMs += ((nowMs - this.#changedMs) * this.#serving) / this.#wanting;
    this.#changedMs = nowMs;
  }
}
