import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Charged, ChargeItem, LimitRule, LimitStore, Place, PlaceItem, Reading } from "./limit-store.ts";
import { type Bucket, type BucketRule, fullBucket, fullInMs, refill, resize, take, waitMs } from "./token-bucket.ts";

const DAY_MS = 86_400_000;

type Count =
  | { readonly kind: "bucket"; readonly bucket: Bucket; readonly rule: BucketRule }
  /** Use of one day; `day` is the number of days since the epoch in UTC. */
  | { readonly kind: "day"; readonly day: number; readonly used: number; readonly total: number };

/** Counts and places of one key. Accounts are never dropped: their number is bounded by the issued keys. */
type Account = { readonly counts: Map<string, Count>; readonly placesInUse: Map<string, number> };

/** The counts of one gateway in memory. A charge does not await, so it is atomic. */
export class MemoryLimitStore implements LimitStore {
  readonly #clock: Clock;
  readonly #accounts = new Map<string, Account>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async charge(keyId: string, items: readonly ChargeItem[], ...places: readonly PlaceItem[]): Promise<Charged> {
    const { counts, placesInUse } = this.#account(keyId);
    const full = places.find(({ name, limit }) => (placesInUse.get(name) ?? 0) >= limit)?.name;
    const before = items.map(({ name, rule }) => this.#current(counts.get(name), rule));
    const waits = items.map(({ cost }, index) =>
      full !== undefined || cost === undefined ? 0 : this.#waitMs(before[index], cost),
    );
    const ok = full === undefined && waits.every((wait) => wait === 0);
    const readings: Reading[] = [];
    for (const [index, { name, cost }] of items.entries()) {
      const found = before[index];
      if (!found) continue;
      const count = ok && cost !== undefined ? taken(found, cost) : found;
      counts.set(name, count);
      readings.push({ waitMs: waits[index] ?? 0, ...this.#state(count) });
    }
    if (full !== undefined) return { ok, readings, refusedBy: "place", full };
    if (!ok || places.length === 0) return { ok, readings };
    return { ok, readings, place: takePlaces(placesInUse, places) };
  }

  settle(keyId: string, name: string, amount: number): void {
    const { counts } = this.#account(keyId);
    const count = counts.get(name);
    if (count) counts.set(name, taken(this.#current(count, ruleOf(count)), amount));
  }

  #account(keyId: string): Account {
    let account = this.#accounts.get(keyId);
    if (!account) {
      account = { counts: new Map(), placesInUse: new Map() };
      this.#accounts.set(keyId, account);
    }
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

  #waitMs(count: Count | undefined, cost: number): number {
    if (!count) return 0;
    if (count.kind === "bucket") return waitMs(count.bucket, count.rule, cost);
    // The total of a day may be exceeded: answers are counted when they end.
    return count.used < count.total ? 0 : this.#untilMidnightMs();
  }

  #state(count: Count): Omit<Reading, "waitMs"> {
    if (count.kind === "bucket") return { remaining: count.bucket.level, resetMs: fullInMs(count.bucket, count.rule) };
    return { remaining: count.total - count.used, resetMs: this.#untilMidnightMs() };
  }

  #untilMidnightMs(): number {
    return DAY_MS - (Math.floor(this.#clock.wallMs()) % DAY_MS);
  }
}

/** Takes one place of each name until they are released. */
function takePlaces(inUse: Map<string, number>, places: readonly PlaceItem[]): Place {
  for (const { name } of places) inUse.set(name, (inUse.get(name) ?? 0) + 1);
  let held = true;
  return {
    release() {
      if (!held) return;
      held = false;
      for (const { name } of places) inUse.set(name, (inUse.get(name) ?? 1) - 1);
    },
  };
}

function taken(count: Count, amount: number): Count {
  return count.kind === "bucket"
    ? { ...count, bucket: take(count.bucket, count.rule, amount) }
    : { ...count, used: Math.max(0, count.used + amount) };
}

function ruleOf(count: Count): LimitRule {
  return count.kind === "bucket" ? { kind: "bucket", ...count.rule } : { kind: "day", total: count.total };
}
