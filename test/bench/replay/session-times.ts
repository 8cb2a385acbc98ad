import { percentile } from "../report.ts";

/** The groups of sessions by their number of turns. */
export const TURN_GROUPS = [
  { key: "Few", title: "<=5 turns", most: 5 },
  { key: "Some", title: "6-20 turns", most: 20 },
  { key: "Many", title: ">20 turns", most: Number.POSITIVE_INFINITY },
] as const;

type Session = { turns: number; waitedMs: number };

/** What sessions waited for their answers, from request to end of answer, over all turns and without the pauses. */
export class SessionTimes {
  readonly #open = new Map<string, Session>();
  readonly #ended: Session[] = [];

  answered(name: string, waitedMs: number): void {
    const session = this.#open.get(name) ?? { turns: 0, waitedMs: 0 };
    session.turns += 1;
    session.waitedMs += waitedMs;
    this.#open.set(name, session);
  }

  /** The session goes on no more; it is measured where `counts`. */
  ended(name: string, counts: boolean): void {
    const session = this.#open.get(name);
    this.#open.delete(name);
    if (session && counts) this.#ended.push(session);
  }

  endAll(): void {
    for (const name of [...this.#open.keys()]) this.ended(name, true);
  }

  /** Returns the milliseconds of each session with more than `above` turns and at most `most`. */
  waitsMs(above = 0, most = Number.POSITIVE_INFINITY): readonly number[] {
    return this.#ended.filter(({ turns }) => turns > above && turns <= most).map(({ waitedMs }) => waitedMs);
  }

  /** Returns the median and the 99th percentile of each group by number of turns, in seconds. */
  byTurns(): Readonly<Record<`sessionP${50 | 99}S${(typeof TURN_GROUPS)[number]["key"]}`, number>> {
    const result: Record<string, number> = {};
    let above = 0;
    for (const { key, most } of TURN_GROUPS) {
      const waits = this.waitsMs(above, most);
      for (const p of [50, 99]) result[`sessionP${p}S${key}`] = percentile(waits, p / 100) / 1_000;
      above = most;
    }
    return result as ReturnType<SessionTimes["byTurns"]>;
  }
}
