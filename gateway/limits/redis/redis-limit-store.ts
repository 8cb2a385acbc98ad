import { randomBytes } from "node:crypto";
import { atMostEvery } from "../../../deploy/runtime/log/process-log.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { faultOf, type RedisState } from "../../state/redis-state.ts";
import type { Charged, ChargeItem, LimitStore, PermitItem, Postponed, Reading } from "../limit-store.ts";
import { MemoryLimitStore } from "../memory-limit-store.ts";
import { BEAT_SCRIPT, KEY_SCRIPT } from "./limit-scripts.ts";
import { type OpenQuestion, RedisAccount } from "./redis-account.ts";

const BEAT_MS = 1_000;
/** Milliseconds after its last heartbeat until a gateway is dead, and its permits are free. */
const LEASE_MS = 5_000;
/** Milliseconds without a heartbeat of any gateway after which the store is considered to have been unreachable. */
const SILENCE_MS = 3_000;
/** Charges that may await the store at a time; beyond them this gateway decides alone. */
const MAX_OPEN = 10_000;
const MAX_ITEMS = 400;
const IN_STEP_AT_ONCE = 64;
const WARN_EVERY_MS = 60_000;

export type RedisLimitStoreOptions = {
  readonly state: RedisState;
  readonly clock: Clock;
  /** Called with an error code when the store becomes unreachable, and each minute while it is. */
  readonly onAway: (fault: string) => void;
  readonly onBack: () => void;
  /** Time of all counts, in milliseconds since the epoch. Default: the store's own. */
  readonly nowMs?: () => number;
};

export type SharedLimitState = {
  readonly shared: boolean;
  /** Number of gateways by which this one computes its share while the store is unreachable. */
  readonly gateways: number;
};

/**
 * Counts in Redis, for the gateways of all hosts. A decision is one script there, at the store's own time. While the
 * store is unreachable the gateway counts locally with its share of what the store last said to remain, or refuses, as
 * configured; afterwards it sends the local use, and settles the questions without an answer.
 */
export class RedisLimitStore implements LimitStore {
  readonly #options: RedisLimitStoreOptions;
  readonly #gateway = randomBytes(8).toString("base64url");
  readonly #alone: MemoryLimitStore;
  readonly #accounts = new Map<string, RedisAccount>();
  /** Each stops an awaited charge from waiting for the store. */
  readonly #awaited = new Set<() => void>();
  readonly #unsent = new Set<RedisAccount>();
  /** Whether a flush is scheduled for the end of this tick of the event loop. */
  #sendsSoon = false;
  #away = true;
  /** How often this gateway's counts in the store have become uncertain. */
  #outages = 0;
  /** Gateways that were live at the last heartbeat, including this one, and the store's time then. */
  #live: readonly string[] = [];
  #seenMs = 0;
  readonly #logAway: (error?: unknown) => void;
  /** Whether the current outage was reported. */
  #said = false;
  #cancelBeat = () => {};
  #closed = false;

  private constructor(options: RedisLimitStoreOptions) {
    this.#options = options;
    this.#alone = new MemoryLimitStore(options.clock);
    this.#logAway = atMostEvery(options.clock, WARN_EVERY_MS, (error) => {
      this.#said = true;
      // The reason for a missing connection is more specific than its absence.
      options.onAway(options.state.fault ?? faultOf(error));
    });
  }

  static async open(options: RedisLimitStoreOptions): Promise<RedisLimitStore> {
    const store = new RedisLimitStore(options);
    await store.#beat();
    return store;
  }

  get state(): SharedLimitState {
    return { shared: !this.#away, gateways: this.#gateways };
  }

  async charge(keyId: string, items: readonly ChargeItem[], ...permits: readonly PermitItem[]): Promise<Charged> {
    const account = this.#account(keyId);
    const bounded = items.slice(0, MAX_ITEMS);
    for (const { name, rule } of bounded) account.rules.set(name, rule);
    if (this.#away || this.#awaited.size >= MAX_OPEN || !(this.#isInStep(account) || (await this.#inStep(account))))
      return this.#chargeAlone(account, bounded, permits);
    // Refunds sent before are available to this request.
    void this.#send(account);
    return await this.#askToCharge(account, bounded, permits);
  }

  /** While the store is unreachable no charge is postponed: a local decision is free. */
  postpone(keyId: string, items: readonly ChargeItem[], ...permits: readonly PermitItem[]): Postponed | undefined {
    const account = this.#account(keyId);
    if (this.#away || !this.#isInStep(account)) return undefined;
    const remaining = this.#shareLeft(keyId, items).map((left) => left * this.#gateways);
    return account.postpone(items, permits, remaining);
  }

  settle(keyId: string, name: string, amount: number): void {
    if (!Number.isFinite(amount)) return;
    const account = this.#account(keyId);
    account.owe(name, amount);
    this.#alone.settle(keyId, name, this.#away ? amount : amount / this.#gateways);
    this.#sendSoon(account);
  }

  release(keyId: string, names: readonly string[]): void {
    const account = this.#account(keyId);
    account.free(names);
    this.#sendSoon(account);
  }

  held(keyId: string, name: string): number {
    return this.#accounts.get(keyId)?.held.get(name) ?? 0;
  }

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

  async #askToCharge(
    account: RedisAccount,
    items: readonly ChargeItem[],
    permits: readonly PermitItem[],
  ): Promise<Charged> {
    const charged = new Map(items.flatMap(({ name, cost }) => (cost ? [[name, cost] as const] : [])));
    const open: OpenQuestion = { charged, due: undefined };
    const question = account.ask(open);
    let giveUp = () => {};
    const given = new Promise<undefined>((resolve) => {
      giveUp = () => resolve(undefined);
    });
    // The decision of this gateway alone; settled under the number of the question later.
    const alone = () => {
      const own = this.#decideAlone(account, items, permits);
      open.due = own.ok ? charged : new Map();
      return own;
    };
    let own: Charged | undefined;
    const stop = () => {
      own = alone();
      giveUp();
    };
    this.#awaited.add(stop);
    const request = { question, items, permits, live: this.#live, seen: this.#seenMs };
    const asked = this.#askKey(account, request).catch((error: unknown) => void (own || this.#lost(error)));
    const answer = await Promise.race([asked, given]);
    this.#awaited.delete(stop);
    if (own || !answer) return own ?? alone();
    account.open.delete(question);
    const [outcome, ...numbers] = answer;
    const ok = outcome === "1";
    if (ok) account.hold(permits, false);
    const readings = items.map((_, at) => readingOf(numbers, at));
    this.#follow(account, items, readings);
    if (outcome !== "f") return { ok, readings };
    return { ok, readings, refusedBy: "permit", full: permits[Number(numbers[3 * items.length] ?? 1) - 1]?.name };
  }

  /** Decides as `decideAlone` does, and owes the store the charge. */
  #chargeAlone(account: RedisAccount, items: readonly ChargeItem[], permits: readonly PermitItem[]): Charged {
    const decided = this.#decideAlone(account, items, permits);
    if (decided.ok) for (const { name, cost = 0 } of items) account.owe(name, cost);
    this.#sendSoon(account);
    return decided;
  }

  /** Decides with this gateway's share, or refuses, as configured. */
  #decideAlone(account: RedisAccount, items: readonly ChargeItem[], permits: readonly PermitItem[]): Charged {
    const wants = permits.length > 0 || items.some(({ cost }) => cost !== undefined);
    if (this.#options.state.settings.whenAway === "refuse")
      return wants ? { ok: false, refusedBy: "store", readings: [] } : { ok: true, readings: [] };
    if (this.#away) this.#logAway();
    const gateways = this.#gateways;
    // Permits taken before the store became unreachable count, too. A share has whole permits, and at least 1.
    const isFull = ({ name, limit }: PermitItem) =>
      (account.held.get(name) ?? 0) >= Math.max(1, Math.floor(limit / gateways));
    const full = permits.find(isFull)?.name;
    const shares = items.map((item) => shareOf(full === undefined ? item : { ...item, cost: undefined }, gateways));
    const { ok, readings } = this.#alone.chargeNow(account.keyId, shares);
    if (full !== undefined) return { ok: false, refusedBy: "permit", full, readings };
    if (ok) account.hold(permits, true);
    return { ok, readings };
  }

  /** Returns this gateway's share of what remains of each limit, by its local counts. */
  #shareLeft(keyId: string, items: readonly ChargeItem[]): number[] {
    const looked = items.map((item) => shareOf({ ...item, cost: undefined }, this.#gateways));
    return this.#alone.chargeNow(keyId, looked).readings.map(({ remaining }) => remaining);
  }

  /** Sets the local counts to this gateway's share of what the store says to remain: an outage begins with them. */
  #follow({ keyId }: RedisAccount, items: readonly ChargeItem[], readings: readonly Reading[]): void {
    const own = this.#shareLeft(keyId, items);
    for (const [at, { name }] of items.entries())
      this.#alone.settle(keyId, name, (own[at] ?? 0) - (readings[at]?.remaining ?? 0) / this.#gateways);
  }

  /** Sends the owed updates of a key at the end of this tick of the event loop. */
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
    if (this.#away || this.#awaited.size >= MAX_OPEN) return;
    if (!this.#isInStep(account)) {
      await this.#inStep(account);
      return;
    }
    this.#unsent.delete(account);
    if (account.owes) await this.#settle(account, false);
  }

  /**
   * Sends the owed amounts of a key and its changes of permits; with `anew` also the amounts due of all questions without
   * an answer, and all permits that this gateway holds. Resolves to whether the store has them; otherwise it is
   * unreachable, and they are sent again under the same numbers.
   */
  async #settle(account: RedisAccount, anew: boolean): Promise<boolean> {
    const question = account.askToSettle();
    const settled = [...account.open].filter(([number, { due }]) => due && (anew || number === question));
    const questions = settled.map(([number, one]) => ({ number, parts: account.partsOf(one) }));
    try {
      await this.#askKey(account, { question, questions, permits: account.takePermits(anew), anew });
    } catch (error) {
      this.#lost(error);
      return false;
    }
    for (const [number] of settled) account.open.delete(number);
    return true;
  }

  #isInStep(account: RedisAccount): boolean {
    if (account.inStepSince !== this.#outages && account.isClear) account.inStepSince = this.#outages;
    return account.inStepSince === this.#outages;
  }

  async #inStep(account: RedisAccount): Promise<boolean> {
    account.comingIntoStep ??= this.#comeIntoStep(account).finally(() => {
      account.comingIntoStep = undefined;
    });
    return account.comingIntoStep;
  }

  async #comeIntoStep(account: RedisAccount): Promise<boolean> {
    const outages = this.#outages;
    if (!(await this.#settle(account, true)) || outages !== this.#outages) return false;
    account.inStepSince = outages;
    return true;
  }

  /** Continues locally: no charge waits for the store any more. */
  #lost(error: unknown): void {
    if (this.#away) return;
    this.#away = true;
    this.#outages += 1;
    this.#logAway(error);
    for (const stop of [...this.#awaited]) stop();
  }

  async #beat(): Promise<void> {
    try {
      const [now, known, ...live] = await this.#askToBeat(false);
      this.#seenMs = Number(now);
      this.#live = live;
      const wasAway = this.#away;
      // Other gateways considered this one dead and reused its permits; it still holds them.
      if (!wasAway && known === "0") this.#outages += 1;
      this.#away = false;
      if (this.#said) this.#options.onBack();
      this.#said = false;
      if (wasAway || known === "0") void this.#bringAllIntoStep();
      for (const account of [...this.#unsent]) void this.#send(account);
    } catch (error) {
      this.#lost(error);
      this.#logAway(error);
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

  #askKey({ keyId, done }: RedisAccount, request: object): Promise<readonly string[]> {
    // The braces make the key id the only part that determines the slot in a Cluster behind a proxy.
    return this.#run(KEY_SCRIPT, `limits:{${keyId}}`, { gateway: this.#gateway, done, ...request });
  }

  async #run(script: typeof KEY_SCRIPT, name: string, request: object): Promise<readonly string[]> {
    const now = this.#options.nowMs?.();
    const reply = await this.#options.state.run(script, [name], JSON.stringify({ ...request, now }));
    return Array.isArray(reply) ? reply.map(String) : [];
  }
}

/** Returns an item of one of `gateways` that use equal shares of a limit, because they cannot count together. */
function shareOf({ name, rule, cost }: ChargeItem, gateways: number): ChargeItem {
  if (rule.kind === "day") return { name, rule: { kind: "day", total: rule.total / gateways }, cost };
  // Below 1, not even one request would ever pass.
  const capacity = Math.max(1, rule.capacity / gateways);
  return { name, rule: { ...rule, perMinute: rule.perMinute / gateways, capacity }, cost };
}

function readingOf(numbers: readonly string[], at: number): Reading {
  const [remaining, resetMs, waitMs] = numbers.slice(3 * at, 3 * at + 3).map(Number);
  return { remaining: remaining ?? 0, resetMs: resetMs ?? 0, waitMs: waitMs ?? 0 };
}
