import { describe, expect, test } from "vitest";
import { WorkLedger } from "../../../../../gateway/upstream/load-balancing/work-ledger.ts";

describe("outstanding work", () => {
  test("adds up by endpoint and falls to zero", () => {
    const ledger = new WorkLedger();
    const one = ledger.add("a", 1_000);
    const other = ledger.add("a", 500);
    ledger.add("b", 7);
    expect(ledger.outstanding("a")).toBe(1_500);
    one.remain(200);
    expect(ledger.outstanding("a")).toBe(700);
    one.done();
    other.done();
    expect(ledger.outstanding("a")).toBe(0);
    expect(ledger.outstanding("b")).toBe(7);
  });

  test("counts each end once, and nothing after it", () => {
    const ledger = new WorkLedger();
    ledger.add("a", 100);
    const work = ledger.add("a", 50);
    work.done();
    work.done();
    work.remain(30);
    expect(ledger.outstanding("a")).toBe(100);
  });

  test("is never negative", () => {
    const ledger = new WorkLedger();
    ledger.add("a", -5);
    expect(ledger.outstanding("a")).toBe(0);
  });
});

describe("the speed of an endpoint", () => {
  test("follows measurements slowly", () => {
    const ledger = new WorkLedger();
    ledger.measured("a", 10_000, 1_000);
    expect(ledger.speed("a")).toBe(10_000);
    ledger.measured("a", 20_000, 1_000);
    expect(ledger.speed("a")).toBe(12_000);
  });

  test("is the others' mean without a measurement", () => {
    const ledger = new WorkLedger();
    ledger.measured("a", 10_000, 1_000);
    ledger.measured("b", 20_000, 1_000);
    expect(ledger.speed("c")).toBe(15_000);
    ledger.forget("b");
    expect(ledger.speed("b")).toBe(10_000);
  });

  test.each([
    ["a handful of tokens", 10, 5],
    ["no time at all", 10_000, 0],
  ])("is not learned from %s", (_, tokens, prefillMs) => {
    const ledger = new WorkLedger();
    ledger.measured("a", tokens, prefillMs);
    expect(ledger.speed("a")).toBeUndefined();
  });
});
