import { describe, expect, test } from "vitest";
import { DeathCounter } from "../../../../../gateway/upstream/retry/death-counter.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const SIGNAL = new AbortController().signal;

/** Deaths of endpoints, each some 50 ms after they accepted requests. */
class Deaths {
  readonly clock = new VirtualClock();
  readonly counter = new DeathCounter(this.clock);

  /** The endpoint at `address` dies with requests on it. */
  async die(address: string, digests: string, workedMs = 50): Promise<void> {
    await Promise.all([...digests].map((digest) => this.counter.died(digest, address, workedMs, false, SIGNAL)));
  }

  /** Plays the text in its order: `a:rs` is the death of a with r and s on it, `+5` are five seconds. */
  async story(text: string): Promise<this> {
    for (const event of text.split(" ")) {
      if (event.startsWith("+")) await this.clock.advance(Number(event) * 1_000);
      else await this.die(...(event.split(":") as [string, string]));
    }
    return this;
  }
}

describe("a request on endpoints that died", () => {
  test.each([
    ["once", "a:r", "allowed"],
    ["alone, twice", "a:r b:r", "denied"],
    ["alone, twice, for ten minutes", "a:r b:r +599", "denied"],
    ["alone, twice, no longer", "a:r b:r +600", "allowed"],
    ["alone, on the same endpoint", "a:r +6 a:r", "allowed"],
    ["alone, then with others", "a:r b:rs", "denied"],
    ["alone, two minutes apart", "a:r +120 b:r", "allowed"],
    ["with others, twice", "a:rs b:rs", { laterMs: 10_000 }],
    ["with others, twice, a while ago", "a:rs b:rs +10", "allowed"],
    ["with others, five times", "a:rs b:rs +20 a:rs +20 b:rs +20 a:rs", { laterMs: 10_000 }],
    ["with others, six times", "a:rs b:rs +20 a:rs +20 b:rs +20 a:rs +20 b:rs", "denied"],
    ["beside an endpoint that died before", "c:x +1 a:r +4 b:r", { laterMs: 10_000 }],
    ["beside an endpoint that died in between", "a:r +2 c:x +3 b:r", { laterMs: 10_000 }],
    ["beside an endpoint that died soon after", "a:r b:r +9 c:x", { laterMs: 1_000 }],
    ["before an endpoint died long after", "a:r b:r +10 c:x", "denied"],
  ] as const)("the counter of deaths judges a request that was lost %s", async (_how, text, verdict) => {
    const { counter } = await new Deaths().story(text);
    expect(counter.judge("r")).toEqual(verdict);
    expect(counter.judge("another")).toBe("allowed");
  });

  test("before it was answered is allowed", async () => {
    const deaths = await new Deaths().story("a:r");
    deaths.counter.answered("r");
    expect((await deaths.story("+120 b:r")).counter.judge("r")).toBe("allowed");
    expect((await deaths.story("c:r")).counter.judge("r")).toBe("denied");
  });

  test.each([
    [20_000, "denied"],
    [20_001, "allowed"],
  ])("a request on endpoints that died behind %i ms of work is %s", async (workedMs, verdict) => {
    const deaths = new Deaths();
    for (const address of ["a", "b"]) await deaths.die(address, "r", workedMs);
    expect(deaths.counter.judge("r")).toBe(verdict);
  });
});

describe("others lost together with a request", () => {
  test.each([
    ["on its endpoint", "a:rs", true],
    ["on no other one", "a:r", false],
    ["on another endpoint, before", "b:x +119 a:r", true],
    ["on another endpoint, not long before", "b:x +120 a:r", false],
  ])("the counter of deaths looks for others lost %s", async (_where, text, lost) => {
    const deaths = await new Deaths().story(text);
    const own = await deaths.counter.died("r", "a", 50, false, SIGNAL);
    own.requests -= 1;
    expect(deaths.counter.othersLost([own])).toBe(lost);
  });

  test("on endpoints that became silent one after another, a second later", async () => {
    const { clock, counter } = new Deaths();
    const first = counter.died("r", "a", 50, true, SIGNAL);
    await clock.advance(900);
    const second = counter.died("s", "a", 50, true, SIGNAL);
    await clock.advance(1_000);
    expect(await first).toBe(await second);
    expect(counter.othersLost([await first])).toBe(true);
  });
});
