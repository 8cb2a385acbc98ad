import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Charged, ChargeItem, LimitRule, LimitStore, PermitItem, Reading } from "./limit-store.ts";
import { type Bucket, type BucketRule, fullBucket, refill, resize, take, waitMs } from "./token-bucket.ts";

const DAY_MS = 86_400_000;

type Count =
  | { readonly kind: "bucket"; readonly bucket: Bucket; readonly rule: BucketRule }
  /** Use of one day; `day` is the number of days since the epoch in UTC. */
  | { readonly kind: "day"; readonly day: number; readonly used: number; readonly total: number };

/** Counts and permits of one key. Accounts are never dropped: their number is bounded by the issued keys. */
type Account = { readonly counts: Map<string, Count>; readonly held: Map<string, number> };

export class MemoryLimitStore implements LimitStore {
  readonly #clock: Clock;
  readonly #accounts = new Map<string, Account>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async charge(keyId: string, items: readonly ChargeItem[], ...permits: readonly PermitItem[]): Promise<Charged> {
    return this.chargeNow(keyId, items, ...permits);
  }

  chargeNow(keyId: string, items: readonly ChargeItem[], ...permits: readonly PermitItem[]): Charged {
    const { counts, held } = this.#account(keyId);
    const full = permits.find(({ name, limit }) => (held.get(name) ?? 0) >= limit)?.name;
    const found = items.map(({ name, rule, cost }) => {
      const count = this.#current(counts.get(name), rule);
      return { name, count, cost, waitMs: full === undefined && cost !== undefined ? this.#waitMs(count, cost) : 0 };
    });
    const ok = full === undefined && found.every((one) => one.waitMs === 0);
    const readings = found.map(({ name, count: before, cost, waitMs: wait }): Reading => {
      const count = ok && cost !== undefined ? taken(before, cost) : before;
      counts.set(name, count);
      return { waitMs: wait, ...this.#state(count) };
    });
    if (full !== undefined) return { ok, readings, refusedBy: "permit", full };
    if (ok) for (const { name } of permits) held.set(name, (held.get(name) ?? 0) + 1);
    return { ok, readings };
  }

  settle(keyId: string, name: string, amount: number): void {
    const { counts } = this.#account(keyId);
    const count = counts.get(name);
    if (count) counts.set(name, taken(this.#current(count, ruleOf(count)), amount));
  }

  release(keyId: string, names: readonly string[]): void {
    const { held } = this.#account(keyId);
    for (const name of names) held.set(name, (held.get(name) ?? 1) - 1);
  }

  held(keyId: string, name: string): number {
    return this.#accounts.get(keyId)?.held.get(name) ?? 0;
  }

  #account(keyId: string): Account {
    const account = this.#accounts.get(keyId) ?? { counts: new Map(), held: new Map() };
    this.#accounts.set(keyId, account);
    return account;
  }

  /** Returns the count as of now under `rule`, or a new one if there was none of its kind. */
  #current(count: Count | undefined, rule: LimitRule): Count {
    if (rule.kind === "day") {
      const day = Math.floor(this.#clock.wallMs() / DAY_MS);
      const used = count?.kind === "day" && count.day === day ? count.used : 0;
      return { kind: "day", day, used, total: rule.total };
    }
    const nowMs = this.#clock.nowMs();
    if (count?.kind !== "bucket") return { kind: "bucket", bucket: fullBucket(rule, nowMs), rule };
    return { kind: "bucket", bucket: resize(refill(count.bucket, count.rule, nowMs), count.rule, rule), rule };
  }

  #waitMs(count: Count, cost: number): number {
    if (count.kind === "bucket") return waitMs(count.bucket, count.rule, cost);
    // The total of a day may be exceeded: answers are counted when they end.
    return count.used < count.total ? 0 : this.#untilMidnightMs();
  }

  #state(count: Count): Omit<Reading, "waitMs"> {
    if (count.kind === "day") return { remaining: count.total - count.used, resetMs: this.#untilMidnightMs() };
    return { remaining: count.bucket.level, resetMs: waitMs(count.bucket, count.rule, count.rule.capacity) };
  }

  #untilMidnightMs(): number {
    return DAY_MS - (Math.floor(this.#clock.wallMs()) % DAY_MS);
  }
}

function taken(count: Count, amount: number): Count {
  return count.kind === "bucket"
    ? { ...count, bucket: take(count.bucket, count.rule, amount) }
    : { ...count, used: Math.max(0, count.used + amount) };
}

function ruleOf(count: Count): LimitRule {
  return count.kind === "bucket" ? { kind: "bucket", ...count.rule } : { kind: "day", total: count.total };
}
