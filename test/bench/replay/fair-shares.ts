/** The least share in seconds by which a session is judged: of a few seconds, one wait says nothing. */
const JUDGED_SECONDS = 60;

type Session = { servedMs: number; fairMs: number };

/** Follows one turn of a session, from its coming to the end of its answer. */
export type FollowedTurn = {
  /** Notes that the node serves the turn from now on, at a share of the speed that it would have alone: 0 to 1. */
  served(share: number): void;
  /** Notes that the answer is whole. */
  finished(): void;
};

/**
 * Keeps account of what each session was served, in time of prefill and answers, beside its fair share: at each moment all
 * that is served, divided by the sessions that want to run.
 */
export class FairShares {
  readonly #nowMs: () => number;
  readonly #sessions = new Map<string, Session>();
  /** The turns that are not answered yet. */
  readonly #open = new Set<() => void>();
  #wanting = 0;
  /** The shares at which turns are served, together. */
  #serving = 0;
  /** The fair share of one who has wanted to run since the begin, in milliseconds. */
  #fairMs = 0;
  #changedMs = 0;

  /** Begins at the moment that `nowMs` returns, in milliseconds. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#changedMs = nowMs();
  }

  /** Notes that a turn of a session comes. */
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

  /** Counts anew from now on; who wants to run goes on wanting. */
  reset(): void {
    for (const settle of this.#open) settle();
    for (const session of this.#sessions.values()) Object.assign(session, { servedMs: 0, fairMs: 0 });
  }

  /** Returns what each session was served by its fair share, of those whose share is a minute or more. */
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
