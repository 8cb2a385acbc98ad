import { randomBytes } from "node:crypto";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { faultOf, type RedisState } from "../../state/redis-state.ts";
import { placeShareOf, shareOf } from "../limit-share.ts";
import type { Charged, ChargeItem, LimitStore, Place, PlaceItem, Postponed, Reading } from "../limit-store.ts";
import { MemoryLimitStore } from "../memory-limit-store.ts";
import { BEAT_SCRIPT, KEY_SCRIPT } from "./limit-scripts.ts";
import { RedisAccount } from "./redis-account.ts";

/** Milliseconds between two heartbeats. */
const BEAT_MS = 1_000;
/** Milliseconds after its last heartbeat until a gateway is dead, and its places are free. */
const LEASE_MS = 5_000;
/** Milliseconds without a heartbeat of any gateway after which the store is considered to have been unreachable. */
const SILENCE_MS = 3_000;
/** Questions that may await the store at a time; beyond them this gateway decides alone. */
const MAX_OPEN = 10_000;
/** Limits of one question: those of a hundred models. */
const MAX_ITEMS = 400;
/** Keys whose counts are synchronized at a time. */
const IN_STEP_AT_ONCE = 64;
const SAY_EVERY_MS = 60_000;

export type RedisLimitStoreOptions = {
  readonly state: RedisState;
  /** Clock of heartbeats, and of local counts while the store is unreachable. */
  readonly clock: Clock;
  /** Called with an error code when the store becomes unreachable, and each minute while it is. */
  readonly onAway: (fault: string) => void;
  /** Called when the store is reachable again. */
  readonly onBack: () => void;
  /** Time of all counts, in milliseconds since the epoch. Default: the store's own. */
  readonly nowMs?: () => number;
};

/** The state of a limit store that gateways share. */
export type SharedLimitState = {
  /** Whether the store answers, so that limits apply across all gateways. */
  readonly shared: boolean;
  /** Number of gateways by which this one computes its share while the store is unreachable. */
  readonly gateways: number;
};

/**
 * Counts in Redis, for the gateways of all hosts. A decision is one script there, at the store's own time. While the
 * store is unreachable the gateway counts locally with its share of each limit, or refuses, as configured; afterwards
 * it asks for the outcome of the questions without an answer, and sends the local use.
 */
export class RedisLimitStore implements LimitStore {
  readonly #options: RedisLimitStoreOptions;
  readonly #gateway = randomBytes(8).toString("base64url");
  readonly #alone: MemoryLimitStore;
  readonly #accounts = new Map<string, RedisAccount>();
  /** Questions that are awaited. */
  readonly #open = new Set<() => void>();
  readonly #unsent = new Set<RedisAccount>();
  /** Whether a flush is scheduled for the end of this event loop turn. */
  #sendsSoon = false;
  #away = true;
  /** How often this gateway's counts in the store have become uncertain. */
  #outages = 0;
  /** Gateways that were live at the last heartbeat, including this one, and the store's time then. */
  #live: readonly string[] = [];
  #seenMs = 0;
  #saidAtMs: number | undefined;
  /** Whether the current outage was reported. */
  #said = false;
  #cancelBeat = () => {};
  #closed = false;

  private constructor(options: RedisLimitStoreOptions) {
    this.#options = options;
    this.#alone = new MemoryLimitStore(options.clock);
  }

  /** Opens the store and starts heartbeats. A store that does not answer yet is unreachable. */
  static async open(options: RedisLimitStoreOptions): Promise<RedisLimitStore> {
    const store = new RedisLimitStore(options);
    await store.#beat();
    return store;
  }

  /** State of the store, for operators. */
  get state(): SharedLimitState {
    return { shared: !this.#away, gateways: this.#gateways };
  }

  async charge(keyId: string, items: readonly ChargeItem[], ...places: readonly PlaceItem[]): Promise<Charged> {
    const account = this.#account(keyId);
    const bounded = items.slice(0, MAX_ITEMS);
    for (const { name, rule } of bounded) account.rules.set(name, rule);
    if (this.#away || this.#open.size >= MAX_OPEN || !(this.#isInStep(account) || (await this.#inStep(account))))
      return this.#chargeAlone(account, bounded, places, true);
    // Refunds sent before are available to this request.
    void this.#send(account);
    return new Promise((resolve) => this.#askToCharge(account, bounded, places, resolve));
  }

  /**
   * Notes a postponed charge, unless a refusal is likely. While the store is unreachable no charge is postponed: a
   * local decision is free.
   */
  postpone(keyId: string, items: readonly ChargeItem[], ...places: readonly PlaceItem[]): Postponed | undefined {
    const account = this.#account(keyId);
    if (this.#away || !this.#isInStep(account)) return undefined;
    return account.postpone(items, places, this.#options.clock.nowMs());
  }

  settle(keyId: string, name: string, amount: number): void {
    const account = this.#account(keyId);
    account.owe(name, amount);
    if (this.#away) this.#alone.settle(keyId, name, amount);
    else this.#sendSoon(account);
  }

  /** Sends all owed updates and the departure of this gateway, and stops. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelBeat();
    if (this.#away) return;
    const sent = [...this.#unsent].map((account) => this.#send(account));
    await Promise.all(sent);
    await this.#askToBeat(true).catch(() => {});
  }

  get #gateways(): number {
    return Math.max(1, this.#live.length);
  }

  #account(keyId: string): RedisAccount {
    let account = this.#accounts.get(keyId);
    if (!account) {
      account = new RedisAccount(keyId);
      this.#accounts.set(keyId, account);
    }
    return account;
  }

  #askToCharge(
    account: RedisAccount,
    items: readonly ChargeItem[],
    places: readonly PlaceItem[],
    resolve: (charged: Charged | Promise<Charged>) => void,
  ): void {
    let own: Promise<Charged> | undefined;
    const giveUp = () => {
      this.#open.delete(giveUp);
      own ??= this.#chargeAlone(account, items, places, false);
      resolve(own);
    };
    const question = account.ask({
      giveUp,
      // Only called if the question was given up.
      settleUp: (taken) =>
        void own?.then(({ ok }) => {
          for (const { name, cost = 0 } of items) account.owe(name, (Number(ok) - Number(taken)) * cost);
          this.#sendSoon(account);
        }),
    });
    this.#open.add(giveUp);
    const asked = this.#ask(account, question, "charge", { items, places, live: this.#live, seen: this.#seenMs });
    asked.then(
      ([outcome, ...numbers]) => {
        if (own) return;
        this.#open.delete(giveUp);
        account.open.delete(question);
        // The question was ruled out before it arrived.
        if (outcome === "x") return resolve(this.#chargeAlone(account, items, places, true));
        const ok = outcome === "1";
        if (ok) for (const { name } of places) account.hold(name, true);
        const readings = items.map((_, at) => readingOf(numbers, at));
        account.learn(items, readings, this.#options.clock.nowMs());
        const full = outcome === "f" ? places[Number(numbers[3 * items.length] ?? 1) - 1]?.name : undefined;
        return resolve({
          ...{ ok, readings },
          ...(outcome === "f" && { refusedBy: "place", full }),
          ...(ok && places.length > 0 && { place: this.#placeOf(account, places) }),
        });
      },
      (error: unknown) => {
        if (!own) this.#lost(error);
      },
    );
  }

  /**
   * Decides with this gateway's share, or refuses, as configured. `owed` is true if the store is owed the charge now;
   * if the store may have made the same decision, this is settled later.
   */
  async #chargeAlone(
    account: RedisAccount,
    items: readonly ChargeItem[],
    places: readonly PlaceItem[],
    owed: boolean,
  ): Promise<Charged> {
    const wants = places.length > 0 || items.some(({ cost }) => cost !== undefined);
    if (this.#options.state.settings.whenAway === "refuse")
      return wants ? { ok: false, refusedBy: "store", readings: [] } : { ok: true, readings: [] };
    if (this.#away) this.#sayAway();
    const gateways = this.#gateways;
    // Places taken before the store became unreachable count, too.
    const taken = (place: PlaceItem) => (account.held.get(place.name) ?? 0) >= placeShareOf(place, gateways).limit;
    const full = places.find(taken)?.name;
    const shares = items.map(({ name, rule, cost }) => {
      return { name, rule: shareOf(rule, gateways), cost: full === undefined ? cost : undefined };
    });
    if (full === undefined) for (const { name } of places) account.hold(name, false);
    const { ok, readings } = await this.#alone.charge(account.keyId, shares);
    if (full !== undefined) return { ok: false, refusedBy: "place", full, readings };
    if (!ok) for (const { name } of places) account.free(name);
    if (ok && owed) for (const { name, cost = 0 } of items) account.owe(name, cost);
    this.#sendSoon(account);
    return ok && places.length > 0 ? { ok, readings, place: this.#placeOf(account, places) } : { ok, readings };
  }

  #placeOf(account: RedisAccount, places: readonly PlaceItem[]): Place {
    let held = true;
    return {
      release: () => {
        if (!held) return;
        held = false;
        for (const { name } of places) account.free(name);
        this.#sendSoon(account);
      },
    };
  }

  /** Sends the owed updates of a key at the end of this event loop turn. */
  #sendSoon(account: RedisAccount): void {
    this.#unsent.add(account);
    if (this.#sendsSoon || this.#away) return;
    this.#sendsSoon = true;
    setImmediate(() => {
      this.#sendsSoon = false;
      for (const each of [...this.#unsent]) void this.#send(each);
    });
  }

  /** Sends the owed updates of a key, unless the store is unreachable or the key is not synchronized. */
  async #send(account: RedisAccount): Promise<void> {
    if (this.#away || this.#open.size >= MAX_OPEN) return;
    if (!this.#isInStep(account)) {
      await this.#inStep(account);
      return;
    }
    this.#unsent.delete(account);
    if (account.owes) await this.#tell(account, account.takePlaces(), false);
  }

  /**
   * Sends the owed amounts of a key and its changes of places; with `anew` they are all places that this gateway holds.
   * Resolves to whether the store has them; otherwise it is unreachable.
   */
  async #tell(account: RedisAccount, places: readonly object[], anew: boolean): Promise<boolean> {
    const amounts = account.takeAmounts();
    const giveUp = () => this.#open.delete(giveUp);
    const question = account.ask({
      giveUp,
      settleUp(taken) {
        if (!taken) for (const { name, amount } of amounts) account.owe(name, amount);
      },
    });
    this.#open.add(giveUp);
    try {
      await this.#ask(account, question, "settle", { amounts, places, anew });
      account.open.delete(question);
      return true;
    } catch (error) {
      this.#lost(error);
      return false;
    } finally {
      this.#open.delete(giveUp);
    }
  }

  #isInStep(account: RedisAccount): boolean {
    if (account.inStepSince !== this.#outages && account.isClear) account.inStepSince = this.#outages;
    return account.inStepSince === this.#outages;
  }

  /** Resolves to whether the store has all counts of this gateway for a key. */
  async #inStep(account: RedisAccount): Promise<boolean> {
    account.comingIntoStep ??= this.#comeIntoStep(account).finally(() => {
      account.comingIntoStep = undefined;
    });
    return account.comingIntoStep;
  }

  /**
   * Asks for the outcome of the questions of a key without an answer, rules out those that have not arrived, and sends
   * the local use and the held places.
   */
  async #comeIntoStep(account: RedisAccount): Promise<boolean> {
    const outages = this.#outages;
    try {
      if (account.open.size > 0) {
        const { ack, last } = account;
        const [outcomes = ""] = await this.#askKey(account.keyId, { kind: "fence", ack, to: last });
        for (const [question, { settleUp }] of account.open) {
          account.open.delete(question);
          settleUp(outcomes[question - ack] === "1");
        }
        // Local decisions are recorded before this continues.
        await Promise.resolve();
      }
      if (outages !== this.#outages) return false;
      account.takePlaces();
      const places = [...account.held].map(([name, number]) => ({ name, number }));
      if (!(await this.#tell(account, places, true)) || outages !== this.#outages) return false;
    } catch (error) {
      this.#lost(error);
      return false;
    }
    account.inStepSince = outages;
    return true;
  }

  /** Continues locally: all open questions stop waiting for an answer. */
  #lost(error: unknown): void {
    if (this.#away) return;
    this.#away = true;
    this.#outages += 1;
    this.#sayAway(error);
    for (const giveUp of [...this.#open]) giveUp();
  }

  #sayAway(error?: unknown): void {
    const nowMs = this.#options.clock.nowMs();
    if (this.#saidAtMs !== undefined && nowMs - this.#saidAtMs < SAY_EVERY_MS) return;
    this.#saidAtMs = nowMs;
    this.#said = true;
    // The reason for a missing connection is more specific than its absence.
    this.#options.onAway(this.#options.state.fault ?? faultOf(error));
  }

  /** Sends a heartbeat and reads the live gateways, then again once a second. */
  async #beat(): Promise<void> {
    try {
      const [now, known, ...live] = await this.#askToBeat(false);
      this.#seenMs = Number(now);
      this.#live = live;
      const wasAway = this.#away;
      // Other gateways considered this one dead and reused its places; it still holds them.
      if (!wasAway && known === "0") this.#outages += 1;
      this.#away = false;
      if (this.#said) this.#options.onBack();
      this.#said = false;
      if (wasAway || known === "0") void this.#bringAllIntoStep();
      for (const account of [...this.#unsent]) void this.#send(account);
    } catch (error) {
      this.#lost(error);
      this.#sayAway(error);
    }
    if (!this.#closed) this.#cancelBeat = this.#options.clock.after(BEAT_MS, () => void this.#beat());
  }

  async #bringAllIntoStep(): Promise<void> {
    const all = [...this.#accounts.values()].filter((account) => !this.#isInStep(account));
    for (let at = 0; at < all.length && !this.#away; at += IN_STEP_AT_ONCE)
      await Promise.all(all.slice(at, at + IN_STEP_AT_ONCE).map((account) => this.#inStep(account)));
  }

  #askToBeat(leaves: boolean): Promise<readonly string[]> {
    const request = { gateway: this.#gateway, leaseMs: LEASE_MS, silenceMs: SILENCE_MS, ...(leaves && { leaves }) };
    return this.#run(BEAT_SCRIPT, "gateways", request);
  }

  #ask(account: RedisAccount, question: number, kind: string, about: object): Promise<readonly string[]> {
    return this.#askKey(account.keyId, { kind, question, ack: account.ack, ...about });
  }

  #askKey(keyId: string, request: object): Promise<readonly string[]> {
    // The braces make the key id the only part that determines the Cluster slot.
    return this.#run(KEY_SCRIPT, `limits:{${keyId}}`, { gateway: this.#gateway, ...request });
  }

  async #run(script: typeof KEY_SCRIPT, name: string, request: object): Promise<readonly string[]> {
    const now = this.#options.nowMs?.();
    const reply = await this.#options.state.run(script, [name], JSON.stringify({ ...request, now }));
    return Array.isArray(reply) ? reply.map(String) : [];
  }
}

function readingOf(numbers: readonly string[], at: number): Reading {
  const [remaining, resetMs, waitMs] = numbers.slice(3 * at, 3 * at + 3).map(Number);
  return { remaining: remaining ?? 0, resetMs: resetMs ?? 0, waitMs: waitMs ?? 0 };
}
