import { restBehind } from "../../../../deploy/runtime/threads/processor-waits.ts";
import type { TokenCost } from "./token-cost.ts";

/** A step that has been asked for, as far as it matters for whose turn it is. */
export type AskedStep = {
  /** The tenant whose request the step belongs to. */
  readonly tenant: string;
  /** The tokens in the cache that the step looks at, with those that it puts there. */
  readonly tokens: number;
  /** The tokens that it puts there. Default: 1. */
  readonly added?: number | undefined;
  /** Whether the step brings a request to its first token. */
  readonly isFirst: boolean;
};

const NOBODY: ReadonlySet<string> = new Set();
/** A tenant is heavy that has so many times the tokens which the others of a round have on average. */
const HEAVY = 2;
/** How many times as long as without heavy tenants a round takes on average beside them, at most. */
export const MAX_STRETCH = 2;
/** The weight of the newest round in what rounds without heavy tenants are taken to last. */
const NEWEST = 0.2;
/** The longest that a tenant owes the others, in milliseconds: its requests get on at least so often. */
const MAX_DEBT_MS = 1_000;
/**
 * The time that steps of heavy tenants may take of a round at least, in milliseconds. Whoever comes next waits for half of
 * it, and shorter rounds would cost more for what all steps of one have in common.
 */
const MIN_PART_MS = 5;
/** The shortest rest, in milliseconds, which is what a timer can wait, and the longest: so often do heavy tenants get on. */
const MIN_REST_MS = 1;
const MAX_REST_MS = 50;
/**
 * How long one tenant has to be alone until nobody else is expected, in milliseconds of rounds. Then its rounds are as long
 * as they come, and what those of others took is no longer known.
 */
const ALONE_MS = 5_000;

/**
 * Says whose steps make a round where several tenants ask for some: tenants with a few short requests do not wait for the
 * many long ones of others more than is fair. Everybody waits for all of a round, and what a step takes grows with the
 * tokens of a prompt that it reads, with those in its cache, and with what its sampling is held to.
 *
 * Heavy tenants stand aside while the others' rounds take up what the heavy ones have cost them, until a round takes no
 * more than twice as long on average as without them. Where a batch costs hardly more for their steps, as it does on
 * accelerators, they owe nothing, and stand aside only in a round that brings a newcomer of another tenant to its first
 * token: never twice in a row for that, however many newcomers there are.
 *
 * Whoever comes next waits for the end of the round that runs then. While others come and go, a round therefore has only so
 * many steps of heavy tenants as take about as long as a round of the others, or 5 ms where that is longer, by what such
 * steps took before; the rest of them come next, in the order in which they were asked for.
 *
 * Nor do heavy tenants take up processors that others wait for, other nodes of the machine or a gateway: where the threads
 * that compute had to wait for one, the next round of heavy tenants alone comes after a rest, unless somebody else asks.
 */
export class Turns {
  readonly #tokenCost: TokenCost;
  /** What heavy tenants owe the others, in milliseconds. */
  #debtMs = 0;
  /** What a round without heavy tenants takes beside others, in milliseconds; undefined as long as there was none lately. */
  #lightMs: number | undefined;
  /** What steps of heavy tenants take for a unit of their work, in milliseconds; undefined as long as there was none. */
  #msPerWork: number | undefined;
  #madeWay = false;
  /** The tenants that were heavy when several asked for steps last. */
  #heavy: ReadonlySet<string> = NOBODY;
  #isAlone = true;
  /** How long one tenant alone has asked for steps, in milliseconds of rounds. */
  #aloneMs = 0;
  /** The work of heavy tenants in the last round. */
  #heavyWork = 0;
  /** How long the next round of heavy tenants alone is to wait, in milliseconds. */
  #restMs = 0;
  /** Whether the last round shows what the others take by themselves. */
  #isLight = false;

  /** Makes the turns of an engine that computes nothing; `tokenCost` is that of its model. */
  constructor(tokenCost: TokenCost) {
    this.#tokenCost = tokenCost;
  }

  /** What a round takes without heavy tenants, in milliseconds; undefined while nobody stood aside lately. */
  get lightMs(): number | undefined {
    return this.#lightMs;
  }

  /**
   * Returns for how long behind the last round the next one is to wait, in milliseconds, as long as nothing else is asked
   * for; 0 where it may begin at once.
   */
  restMs(asked: readonly AskedStep[]): number {
    if (this.#restMs < MIN_REST_MS || asked.some(({ tenant }) => !this.#heavy.has(tenant))) return 0;
    return this.#restMs;
  }

  /**
   * Returns the steps of those that were asked for which make the next round, in their order: all of them, or all but those
   * that stand aside. There is at least one.
   */
  choose<Step extends AskedStep>(asked: readonly Step[]): readonly Step[] {
    this.#isAlone = areOfOne(asked);
    const restMs = this.restMs(asked);
    if (restMs > 0) this.#restMs = 0;
    if (this.#isAlone) this.#aloneMs += restMs;
    const heavy = this.#isAlone ? NOBODY : heavyTenants(asked);
    if (heavy.size === 0) this.#debtMs = 0;
    const makeWay = heavy.size > 0 && (this.#lightMs === undefined || (!this.#madeWay && hasNewcomer(asked, heavy)));
    this.#madeWay = makeWay;
    if (!this.#isAlone) this.#heavy = heavy;
    this.#isLight = makeWay || this.#debtMs > 0;
    return this.#isLight ? asked.filter(({ tenant }) => !heavy.has(tenant)) : this.#bounded(asked);
  }

  /**
   * Notes that the round which was chosen last has ended, and took `ms` milliseconds. `waitedMs` returns for how long the
   * threads that compute have waited for a processor since it was called last, in milliseconds.
   */
  ended(ms: number, waitedMs: () => number): void {
    this.#noteCompany(ms);
    if (this.#isLight) {
      this.#lightMs = learned(this.#lightMs, ms);
      this.#debtMs = Math.max(0, this.#debtMs - ms);
    } else if (this.#heavyWork > 0) {
      const lightMs = this.#lightMs ?? ms;
      this.#msPerWork = learned(this.#msPerWork, Math.max(0, ms - lightMs) / this.#heavyWork);
      this.#restMs = Math.min(MAX_REST_MS, this.#restMs + restBehind(ms, waitedMs()));
      if (!this.#isAlone) this.#debtMs = Math.min(MAX_DEBT_MS, Math.max(0, ms - MAX_STRETCH * lightMs));
    }
  }

  /** Returns the steps without those of heavy tenants that would make the round too long. */
  #bounded<Step extends AskedStep>(asked: readonly Step[]): readonly Step[] {
    this.#heavyWork = 0;
    if (this.#heavy.size === 0) return asked;
    const most = Math.max(MIN_PART_MS, this.#lightMs ?? 0) / (this.#msPerWork ?? 0);
    return asked.filter((step) => {
      if (!this.#heavy.has(step.tenant)) return true;
      const work = this.#heavyWork + (step.added ?? 1) * this.#tokenCost(step.tokens);
      if (this.#heavyWork > 0 && work > most) return false;
      this.#heavyWork = work;
      return true;
    });
  }

  /** Forgets the others of a tenant that has been alone for long. */
  #noteCompany(ms: number): void {
    this.#aloneMs = this.#isAlone ? this.#aloneMs + ms : 0;
    if (this.#aloneMs < ALONE_MS) return;
    this.#heavy = NOBODY;
    this.#lightMs = undefined;
  }
}

/** Returns what a mean is taken to be after one more value. */
function learned(before: number | undefined, newest: number): number {
  return before === undefined ? newest : before + NEWEST * (newest - before);
}

/** Returns whether one tenant has asked for all steps, as in most rounds: nothing is made for those. */
function areOfOne(asked: readonly AskedStep[]): boolean {
  return asked.every(({ tenant }) => tenant === asked[0]?.tenant);
}

/** Returns whether somebody else than a heavy tenant asks for the first token of an answer. */
function hasNewcomer(asked: readonly AskedStep[], heavy: ReadonlySet<string>): boolean {
  return asked.some(({ isFirst, tenant }) => isFirst && !heavy.has(tenant));
}

/** Returns the tenants that have far more tokens than the others of a round have on average. */
function heavyTenants(asked: readonly AskedStep[]): ReadonlySet<string> {
  const weights = new Map<string, number>();
  let total = 0;
  for (const { tenant, tokens } of asked) {
    weights.set(tenant, (weights.get(tenant) ?? 0) + tokens);
    total += tokens;
  }
  const heavy = new Set<string>();
  for (const [tenant, weight] of weights)
    if (weight > (HEAVY * (total - weight)) / (weights.size - 1)) heavy.add(tenant);
  return heavy;
}
