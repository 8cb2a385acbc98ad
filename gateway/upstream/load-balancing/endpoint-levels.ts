import { type Candidates, EndpointList } from "./candidates.ts";
import { canServe, type EndpointView, isAvailable } from "./endpoint-view.ts";
import type { ViewFollower } from "./endpoint-views.ts";
import { type PrioritySettings, priorityLoads } from "./priority-levels.ts";

/** One priority of a cluster at this moment. */
export type Level = {
  /** The endpoints of the level that a pick may choose, be they full or not. */
  readonly usable: Candidates;
  /** Those of the usable endpoints that have room for one more request. */
  readonly roomy: Candidates;
  /** The share of the requests that the level gets, in whole percent. */
  readonly loadPercent: number;
  /** Whether the health of the level's endpoints is not looked at. */
  readonly panic: boolean;
};

/** What the owner of the levels knows of an endpoint beside its view. */
export type LevelRules = {
  /**
   * Returns whether all caps of the endpoint's own (circuit breaker, the node's queue, KV cache) leave it room for one
   * more request. By default every endpoint has room.
   */
  readonly hasRoom?: (endpoint: EndpointView) => boolean;
  /** Returns the number of requests that the endpoint takes at once. By default that is the number of its slots. */
  readonly capOf?: (endpoint: EndpointView) => number;
  /** Called whenever an endpoint that had no room has some. */
  readonly onRoom?: () => void;
};

/** Some endpoints of a priority, with those of them that have room, and what all of them take at once. */
class Group {
  readonly usable = new EndpointList();
  readonly roomy = new EndpointList();
  places = 0;

  /** Notes whether the endpoint belongs here, and what it takes at once. Returns whether it came or went. */
  set(endpoint: EndpointView, belongs: boolean, cap: number, capBefore: number): boolean {
    const was = this.usable.get(endpoint.address) !== undefined;
    this.places += (belongs ? cap : 0) - (was ? capBefore : 0);
    if (belongs) this.usable.add(endpoint);
    else if (was) this.usable.delete(endpoint.address);
    return belongs !== was;
  }

  /** Notes whether the endpoint has room. Returns whether it has some and had none. */
  setRoom(endpoint: EndpointView, hasRoom: boolean): boolean {
    const had = this.roomy.get(endpoint.address) !== undefined;
    const has = hasRoom && this.usable.get(endpoint.address) !== undefined;
    if (has) this.roomy.add(endpoint);
    else if (had) this.roomy.delete(endpoint.address);
    return has && !had;
  }
}

/** All endpoints of one priority. */
type Tier = {
  readonly priority: number;
  total: number;
  /** The endpoints that are available: what a pick chooses from. */
  readonly available: Group;
  /** The endpoints that would take a call, well or not: what a pick chooses from in panic. */
  readonly able: Group;
};

/** Where an endpoint was put, and what it was said to take at once. */
type Standing = { readonly tier: Tier; readonly cap: number };

/**
 * The endpoints of a cluster by their priorities: which of them a pick may choose, and which have room. It follows an
 * `EndpointViews` and is kept up to date one endpoint at a time, at a cost that does not grow with their number: a pick
 * then looks only at those that it compares.
 */
export class EndpointLevels implements ViewFollower {
  readonly #priorities: PrioritySettings;
  readonly #hasRoom: (endpoint: EndpointView) => boolean;
  readonly #capOf: (endpoint: EndpointView) => number;
  readonly #onRoom: () => void;
  readonly #standings = new Map<string, Standing>();
  /** The priorities that have endpoints, the first one first. */
  readonly #tiers: Tier[] = [];
  /** The levels as they are; undefined while they have to be found anew. */
  #levels: readonly (Level & { readonly group: Group })[] | undefined;
  #changes = 0;

  /** Starts without endpoints: `EndpointViews.follow` tells of them. */
  constructor(priorities: PrioritySettings, rules: LevelRules = {}) {
    this.#priorities = priorities;
    this.#hasRoom = rules.hasRoom ?? (() => true);
    this.#capOf = rules.capOf ?? (({ slots }) => slots);
    this.#onRoom = rules.onRoom ?? (() => {});
  }

  /** The priorities that have endpoints, the first one first. */
  get levels(): readonly Level[] {
    return this.#found();
  }

  /** The number of endpoints that a pick may choose, be they full or not. */
  get usable(): number {
    return this.#found().reduce((sum, { group }) => sum + group.usable.size, 0);
  }

  /** The number of requests that the usable endpoints take at once. */
  get places(): number {
    return this.#found().reduce((sum, { group }) => sum + group.places, 0);
  }

  /** Whether any usable endpoint has room for one more request. */
  get hasRoom(): boolean {
    return this.#found().some(({ group }) => group.roomy.size > 0);
  }

  /** A number that grows whenever the endpoints are others that a pick may choose. */
  get changes(): number {
    return this.#changes;
  }

  /** Takes in an endpoint, or what has changed of it. */
  changed(view: EndpointView): void {
    const { address, priority } = view;
    const before = this.#standings.get(address);
    if (before && before.tier.priority !== priority) this.left(view);
    const standing = { tier: this.#tier(priority), cap: this.#capOf(view) };
    this.#standings.set(address, standing);
    const { tier, cap } = standing;
    const joined = before?.tier !== tier;
    if (joined) tier.total += 1;
    const capBefore = before?.cap ?? 0;
    const able = tier.able.set(view, canServe(view), cap, capBefore);
    const available = tier.available.set(view, isAvailable(view), cap, capBefore);
    if (joined || able || available) this.#outdated();
    this.#setRoom(view, tier);
  }

  /** Lets go of an endpoint that has left. */
  left(view: EndpointView): void {
    const standing = this.#standings.get(view.address);
    if (!standing) return;
    const { tier, cap } = standing;
    this.#standings.delete(view.address);
    for (const group of [tier.able, tier.available]) {
      group.set(view, false, cap, cap);
      group.setRoom(view, false);
    }
    tier.total -= 1;
    if (tier.total === 0) this.#tiers.splice(this.#tiers.indexOf(tier), 1);
    this.#outdated();
  }

  /** Finds out again whether an endpoint has room, after something else than its view has changed. */
  reconsider(view: EndpointView): void {
    const standing = this.#standings.get(view.address);
    if (standing) this.#setRoom(view, standing.tier);
  }

  #setRoom(view: EndpointView, { able, available }: Tier): void {
    const hasRoom = this.#hasRoom(view);
    // Both are to know, as each of them is what a pick chooses from at some time.
    const [gained, alsoGained] = [able.setRoom(view, hasRoom), available.setRoom(view, hasRoom)];
    if (gained || alsoGained) this.#onRoom();
  }

  #outdated(): void {
    this.#levels = undefined;
    this.#changes += 1;
  }

  #found(): readonly (Level & { readonly group: Group })[] {
    if (this.#levels) return this.#levels;
    const loads = priorityLoads(
      this.#tiers.map(({ available, total }) => ({ available: available.usable.size, total })),
      this.#priorities,
    );
    this.#levels = this.#tiers.map(({ available, able }, at) => {
      const { loadPercent = 0, panic = false } = loads[at] ?? {};
      const group = panic ? able : available;
      return { usable: group.usable, roomy: group.roomy, loadPercent, panic, group };
    });
    return this.#levels;
  }

  #tier(priority: number): Tier {
    const known = this.#tiers.find((tier) => tier.priority === priority);
    if (known) return known;
    const tier = { priority, total: 0, available: new Group(), able: new Group() };
    this.#tiers.push(tier);
    this.#tiers.sort((a, b) => a.priority - b.priority);
    return tier;
  }
}
