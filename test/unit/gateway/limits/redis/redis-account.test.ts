import { describe, expect, test } from "vitest";
import type { ChargeItem } from "../../../../../gateway/limits/limit-store.ts";
import { RedisAccount } from "../../../../../gateway/limits/redis/redis-account.ts";

const PLACE = { name: "concurrency", limit: 2 };

function rpm(cost: number | undefined, perMinute = 60): ChargeItem {
  return { name: "rpm", rule: { kind: "bucket", perMinute, capacity: 3 }, cost };
}

function day(total: number): ChargeItem {
  return { name: "tokensPerDay", rule: { kind: "day", total }, cost: 0 };
}

describe("postponed charges", () => {
  test("sum to at most what would pass together, before the first reply", () => {
    const account = new RedisAccount("k");
    const notes = [1, 2, 3].map(() => account.postpone([rpm(1)], [], 0));
    expect(notes).toEqual([expect.anything(), expect.anything(), expect.anything()]);
    expect(account.postpone([rpm(1)], [], 0)).toBeUndefined();
    notes[0]?.end();
    notes[0]?.end();
    expect(account.postpone([rpm(1)], [], 0)).toBeDefined();
    expect(account.postpone([rpm(1)], [], 0)).toBeUndefined();
  });

  test("exclude charges that the store would refuse according to its last reply, until the refill", () => {
    const account = new RedisAccount("k");
    account.learn([rpm(1)], [{ remaining: -1, resetMs: 4_000, waitMs: 2_000 }], 0);
    expect(account.postpone([rpm(1)], [], 1_999)).toBeUndefined();
    expect(account.postpone([rpm(0)], [], 999)).toBeUndefined();
    expect(account.postpone([rpm(0)], [], 1_000)).toBeDefined();
    expect(account.postpone([rpm(undefined)], [], 0)).toBeDefined();
    expect(account.postpone([rpm(1)], [], 2_000)).toBeDefined();
  });

  test("exclude a key with a debt since the last reply", () => {
    const account = new RedisAccount("k");
    account.rules.set("rpm", rpm(1).rule);
    account.learn([rpm(1)], [{ remaining: 2, resetMs: 1_000, waitMs: 0 }], 0);
    account.owe("rpm", 5);
    expect(account.postpone([rpm(0)], [], 0)).toBeUndefined();
    account.owe("rpm", -3);
    expect(account.postpone([rpm(0)], [], 0)).toBeDefined();
  });

  test("is nothing of a day that is used up, until the next one", () => {
    const account = new RedisAccount("k");
    account.learn([day(100)], [{ remaining: 0, resetMs: 5_000, waitMs: 5_000 }], 0);
    expect(account.postpone([day(100)], [], 4_999)).toBeUndefined();
    expect(account.postpone([day(100)], [], 5_000)).toBeDefined();
  });

  test("wants no more places than are free of those that this gateway holds", () => {
    const account = new RedisAccount("k");
    account.hold([PLACE], false);
    const note = account.postpone([], [PLACE], 0);
    expect(note).toBeDefined();
    expect(account.postpone([], [PLACE], 0)).toBeUndefined();
    note?.end();
    expect(account.postpone([], [PLACE], 0)).toBeDefined();
  });
});
