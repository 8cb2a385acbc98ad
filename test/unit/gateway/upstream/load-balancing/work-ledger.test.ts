import { describe, expect, test } from "vitest";
import { WorkLedger } from "../../../../../gateway/upstream/load-balancing/work-ledger.ts";

describe("the speed of an endpoint", () => {
  test("the speed of an endpoint follows measurements slowly", () => {
    const ledger = new WorkLedger();
    ledger.measured("a", 10_000, 1_000);
    expect(ledger.speed("a")).toBe(10_000);
    ledger.measured("a", 20_000, 1_000);
    expect(ledger.speed("a")).toBe(12_000);
  });

  test("the speed of an endpoint is the others' mean without a measurement", () => {
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
  ])("the speed of an endpoint is not learned from %s", (_, tokens, prefillMs) => {
    const ledger = new WorkLedger();
    ledger.measured("a", tokens, prefillMs);
    expect(ledger.speed("a")).toBeUndefined();
  });
});
