/** A step that has been asked for, as far as it matters for whose turn it is. */
export type AskedStep = {
  /** The tenant whose request the step belongs to. */
  readonly tenant: string;
  /** The tokens in the cache that the step looks at, with those that it puts there. */
  readonly tokens: number;
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
 * Says whose steps make a round where several tenants ask for some: tenants with a few short requests do not wait for the
 * many long ones of others more than is fair. Everybody waits for all of a round, and what a step takes grows with the
 * tokens of a prompt that it reads, with those in its cache, and with what its sampling is held to.
 *
 * Heavy tenants stand aside while the others' rounds take up what the heavy ones have cost them, until a round takes no
 * more than twice as long on average as without them. Where a batch costs hardly more for their steps, as it does on
 * accelerators, they owe nothing, and stand aside only in a round that brings a newcomer of another tenant to its first
 * token: never twice in a row for that, however many newcomers there are.
 */
export class Turns {
  /** What heavy tenants owe the others, in milliseconds. */
  #debts: ReadonlyMap<string, number> = new Map();
  /** What a round without heavy tenants takes beside others, in milliseconds; undefined as long as there was none. */
  #lightMs: number | undefined;
  #madeWay = false;
  /** The heavy tenants that had steps in the last round. */
  #went: ReadonlySet<string> = new Set();
  /** Whether the last round shows what the others take by themselves. */
  #isLight = false;

  /** What a round takes without heavy tenants, in milliseconds; undefined while nobody stood aside. */
  get lightMs(): number | undefined {
    return this.#lightMs;
  }

  /**
   * Returns the steps of those that were asked for which make the next round, in their order: all of them, or all but those
   * that stand aside. There is at least one.
   */
  choose<Step extends AskedStep>(asked: readonly Step[]): readonly Step[] {
    const heavy = heavyTenants(asked);
    if (this.#debts.size > 0) this.#debts = new Map([...this.#debts].filter(([tenant]) => heavy.has(tenant)));
    const makeWay = heavy.size > 0 && (this.#lightMs === undefined || (!this.#madeWay && hasNewcomer(asked, heavy)));
    this.#madeWay = makeWay;
    const goes = ({ tenant }: AskedStep) => !heavy.has(tenant) || !(makeWay || this.#debts.has(tenant));
    const round = heavy.size === 0 ? asked : asked.filter(goes);
    this.#went = new Set(round.flatMap(({ tenant }) => (heavy.has(tenant) ? [tenant] : [])));
    this.#isLight = heavy.size > 0 && this.#went.size === 0;
    return round;
  }

  /** Notes that the round which was chosen last has ended, and took `ms` milliseconds. */
  ended(ms: number): void {
    if (!this.#isLight && this.#went.size === 0) return;
    if (this.#isLight) this.#lightMs = this.#lightMs === undefined ? ms : this.#lightMs + NEWEST * (ms - this.#lightMs);
    const lightMs = this.#lightMs ?? ms;
    const paidMs = Math.min(ms, lightMs);
    const debts = new Map(
      [...this.#debts].flatMap(([tenant, debt]) => (debt > paidMs ? [[tenant, debt - paidMs]] : [])),
    );
    const owedMs = Math.min(MAX_DEBT_MS, ms - MAX_STRETCH * lightMs);
    if (owedMs > 0) for (const tenant of this.#went) debts.set(tenant, owedMs);
    this.#debts = debts;
  }
}

/** Returns whether somebody else than a heavy tenant asks for the first token of an answer. */
function hasNewcomer(asked: readonly AskedStep[], heavy: ReadonlySet<string>): boolean {
  return asked.some(({ isFirst, tenant }) => isFirst && !heavy.has(tenant));
}

/** Returns the tenants that have far more tokens than the others of a round have on average. */
function heavyTenants(asked: readonly AskedStep[]): ReadonlySet<string> {
  const [first] = asked;
  // Most rounds: nothing is made for them.
  if (!first || asked.every(({ tenant }) => tenant === first.tenant)) return NOBODY;
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
