import { describe, expect, test } from "vitest";
import { engineLost } from "../../../../gateway/errors.ts";
import type { UpstreamFailure } from "../../../../gateway/upstream/call/grpc-error.ts";
import { Patience } from "../../../../gateway/upstream/patience.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const RESET: UpstreamFailure = {
  error: engineLost("upstream_reset"),
  retriable: true,
  ending: { kind: "reset" },
  workedMs: 50,
};
const REFUSED: UpstreamFailure = { ...RESET, ending: { kind: "status", code: 13, notReady: false } };

function patience({ mayHold = true, addresses = ["a", "b"] } = {}) {
  const clock = new VirtualClock();
  const tried = new Set<string>();
  return { clock, tried, of: new Patience({ mayHold, holdMs: 1_000, tried, addresses: () => addresses, clock }) };
}

describe("a request that has lost an engine before its first word", () => {
  test("waits for as long as it may be held", async () => {
    const { of, clock } = patience();
    expect(of.waits).toBe(false);
    expect(of.failed({ address: "a", failure: RESET, inDoubt: true })).toBe(true);
    await clock.advance(1_000);
    expect(of.failed({ address: "a", failure: RESET, inDoubt: true })).toBe(true);
    await clock.advance(1);
    expect([of.waits, of.failed({ address: "a", failure: RESET, inDoubt: true })]).toEqual([false, false]);
  });

  test("does not go again where it was lost alone, and nowhere where that was everywhere", () => {
    const { of, tried } = patience();
    for (const address of ["a", "b"]) tried.add(address);
    expect(of.failed({ address: "a", failure: RESET, inDoubt: false })).toBe(true);
    of.forgive();
    expect([...tried]).toEqual(["a"]);
    expect(of.failed({ address: "b", failure: RESET, inDoubt: false })).toBe(false);
  });

  test("waits from the loss of one that worked on it, where its caller is shown nothing", () => {
    const { of } = patience({ mayHold: false });
    const unreached: UpstreamFailure = { ...RESET, ending: { kind: "connect_failure" }, workedMs: undefined };
    expect(of.failed({ address: "a", failure: unreached, inDoubt: false })).toBe(false);
    expect(of.waits).toBe(false);
    expect(of.failed({ address: "b", failure: RESET, inDoubt: true })).toBe(true);
    expect(of.failed({ address: "a", failure: unreached, inDoubt: false })).toBe(true);
  });

  test("goes again where no engine had worked on it", () => {
    const { of, tried } = patience({ addresses: ["a"] });
    const failure = { ...RESET, error: engineLost("upstream_connect_failure"), workedMs: undefined };
    expect(
      of.failed({ address: "a", failure: { ...failure, ending: { kind: "connect_failure" } }, inDoubt: false }),
    ).toBe(true);
    tried.add("a");
    of.forgive();
    expect(tried.size).toBe(0);
  });

  test("does not wait where the engine has refused it", () => {
    const { of } = patience();
    expect(of.failed({ address: "a", failure: REFUSED, inDoubt: true })).toBe(false);
    expect(of.waits).toBe(false);
  });
});
