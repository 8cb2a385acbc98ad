import { setImmediate } from "node:timers/promises";
import { LRUCache } from "lru-cache";
import { sleep } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** The number of deaths after which a request is denied that was alone on one of the endpoints. */
export const MOST_DEATHS_ALONE = 2;
/** The same of a request that always died with other requests or endpoints, and may be innocent. */
export const MOST_DEATHS = 6;
/** The time for which a suspected request is refused, in milliseconds: about the start time of a node. */
export const APART_MS = 10_000;
/** The longest work on a request for which an endpoint's death is attributed to it, in milliseconds. */
const BLAMED_MS = 20_000;
/** The time for which a death is remembered, in milliseconds. */
const REMEMBERED_MS = 120_000;
/** The time for which a request is denied after its last death, in milliseconds. */
const DENIED_MS = 600_000;
/** The time within which the losses of one endpoint are one death, in milliseconds. */
const ONE_DEATH_MS = 1_000;
const MAX_PROMPTS = 1_024;

/** The verdict on a request; `laterMs` is the time for which it is refused, in milliseconds. */
export type Verdict = "allowed" | "denied" | { readonly laterMs: number };

export type Death = {
  readonly address: string;
  readonly atMs: number;
  requests: number;
};

/**
 * Counts by prompt digest the endpoints that died while working on a request, without an answer in between. A request
 * that was alone on one of them is denied after the second death; one that may be innocent is refused for 10 s from the
 * second death on, and denied after the sixth.
 */
export class DeathCounter {
  readonly #clock: Clock;
  readonly #deathsOf = new LRUCache<string, readonly Death[]>({ max: MAX_PROMPTS });
  #recent: readonly Death[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a death. Resolves when the endpoint's other requests are counted, too (`silent`: a second later). */
  async died(digest: string, address: string, workedMs: number, silent: boolean, signal: AbortSignal): Promise<Death> {
    const death = this.#deathOf(address, this.#clock.nowMs());
    death.requests += 1;
    if (workedMs <= BLAMED_MS) this.#deathsOf.set(digest, [...new Set([...this.#of(digest), death])]);
    await (silent ? sleep(this.#clock, ONE_DEATH_MS, signal) : setImmediate());
    return death;
  }

  /** Returns whether the last of some deaths lost other requests, or other endpoints died at about that time. */
  othersLost(deaths: readonly Death[]): boolean {
    const last = deaths.at(-1);
    return last !== undefined && (last.requests > 1 || this.#othersDied(deaths, last));
  }

  answered(digest: string): void {
    this.#deathsOf.delete(digest);
  }

  judge(digest: string): Verdict {
    if (this.#recent.length === 0) return "allowed";
    const deaths = this.#of(digest);
    const last = deaths.at(-1);
    if (!last || new Set(deaths.map(({ address }) => address)).size < MOST_DEATHS_ALONE) return "allowed";
    if (this.#isToBlame(deaths, last)) return "denied";
    const laterMs = last.atMs + APART_MS - this.#clock.nowMs();
    return laterMs > 0 ? { laterMs } : "allowed";
  }

  #isToBlame(deaths: readonly Death[], last: Death): boolean {
    if (deaths.length >= MOST_DEATHS) return true;
    return deaths.some(({ requests }) => requests === 1) && !this.#othersDied(deaths, last);
  }

  #othersDied(deaths: readonly Death[], { atMs: lastMs }: Death): boolean {
    const isNear = ({ atMs }: Death) => atMs > lastMs - REMEMBERED_MS && atMs < lastMs + APART_MS;
    return this.#recent.some((death) => !deaths.includes(death) && isNear(death));
  }

  #of(digest: string): readonly Death[] {
    const deaths = this.#deathsOf.get(digest) ?? [];
    const last = deaths.at(-1);
    if (!last) return deaths;
    const isDenied = deaths.length >= MOST_DEATHS_ALONE && this.#isToBlame(deaths, last);
    if (this.#clock.nowMs() < last.atMs + (isDenied ? DENIED_MS : REMEMBERED_MS)) return deaths;
    this.#deathsOf.delete(digest);
    return [];
  }

  #deathOf(address: string, nowMs: number): Death {
    const known = this.#recent.find((death) => death.address === address && nowMs - death.atMs < ONE_DEATH_MS);
    if (known) return known;
    const death: Death = { address, atMs: nowMs, requests: 0 };
    // The last death of a remembered request has at most that age, and looks back as far again.
    this.#recent = [...this.#recent.filter(({ atMs }) => nowMs - atMs < 2 * REMEMBERED_MS), death];
    return death;
  }
}
