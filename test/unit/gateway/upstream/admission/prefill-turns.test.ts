import { expect, test } from "vitest";
import { PrefillTurns } from "../../../../../gateway/upstream/admission/prefill-turns.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { EndpointViews } from "../../../../../gateway/upstream/load-balancing/endpoint-views.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/** Endpoints that prefill 10,000 tokens per second. */
const view = (address: string, outstandingPrefillTokens = 0) => endpointWith({ address, outstandingPrefillTokens });

function turnsOf(
  endpoints: readonly EndpointView[],
  full: readonly string[] = [],
  random = () => 0,
  clock = new VirtualClock(),
) {
  const views = new EndpointViews();
  for (const endpoint of endpoints) views.set(endpoint);
  return new PrefillTurns({
    views,
    hasRoom: ({ address }) => !full.includes(address),
    clock,
    random,
  });
}

const prompt = (change = {}) => ({
  tokens: 100_000,
  isLast: false,
  overdue: false,
  pickAnywhere: () => undefined,
  ...change,
});

test.each([
  { uncachedTokens: 20_000, ahead: 90_000, waits: false },
  { uncachedTokens: 20_001, ahead: 20_000, waits: false },
  { uncachedTokens: 20_001, ahead: 20_001, waits: true },
  { uncachedTokens: undefined, ahead: 90_000, waits: false },
])("$uncachedTokens tokens behind $ahead: $waits", ({ uncachedTokens, ahead, waits }) => {
  const endpoint = view("a", ahead);
  const pick = uncachedTokens === undefined ? { endpoint } : { endpoint, uncachedTokens };
  expect(turnsOf([endpoint]).waitFor(pick, prompt()) !== undefined).toBe(waits);
});

test("a long prompt queues behind those that wait already", () => {
  const endpoint = view("a");
  const wait = turnsOf([endpoint]).waitFor({ endpoint, uncachedTokens: 90_000 }, prompt({ isLast: true }));
  expect(wait).toEqual({ kind: "prefill", address: undefined, seconds: 9 });
});

test("waits for the holder of most of it, else or when overdue for any endpoint", () => {
  const endpoint = view("a", 50_000);
  const addressOf = (uncachedTokens: number, overdue: boolean) =>
    turnsOf([endpoint]).waitFor({ endpoint, uncachedTokens }, prompt({ overdue }))?.address;
  expect([addressOf(40_000, false), addressOf(60_000, false), addressOf(40_000, true)]).toEqual([
    "a",
    undefined,
    undefined,
  ]);
});

test("waits for a place where it is cached rather than being prefilled elsewhere", () => {
  const [home, other] = [view("home"), view("other")];
  const turns = turnsOf([home, other], ["home"]);
  const at = (uncachedTokens: number, overdue = false) =>
    turns.waitFor(
      { endpoint: other, uncachedTokens: 90_000 },
      prompt({ overdue, pickAnywhere: () => ({ endpoint: home, uncachedTokens }) }),
    );
  expect(at(1_000)).toEqual({ kind: "place", address: "home", seconds: 0.1 });
  expect(at(30_000)).toEqual({ kind: "prefill", address: "home", seconds: 3 });
  expect(at(80_000)).toBeUndefined();
  expect(at(1_000, true)).toBeUndefined();
});

test("a wait ends when the endpoint has room and little prefill, or has left", () => {
  const busy = view("busy", 90_000);
  const look = turnsOf([busy, view("full"), view("idle")], ["full"]).look();
  const over = (kind: "place" | "prefill", address?: string) => look.isOver({ kind, address, seconds: 3 });
  expect([over("prefill", "busy"), over("place", "busy")]).toEqual([false, true]);
  expect([over("prefill", "full"), over("place", "full")]).toEqual([false, false]);
  expect([over("prefill", "idle"), over("prefill", "gone"), over("prefill")]).toEqual([true, true, true]);
  expect(
    turnsOf([busy, view("full")], ["full"])
      .look()
      .anyIdle(),
  ).toBe(false);
});

/** Returns when one of `gateways` gateways considers a previously busy endpoint idle, by its random number. */
async function idleAfterMs(gateways: number, chance: number): Promise<number> {
  const clock = new VirtualClock();
  const node = { ...view("a"), gateways, outstandingPrefillTokens: 90_000 };
  const turns = turnsOf([node], [], () => chance, clock);
  const isIdle = () => turns.look().isOver({ kind: "prefill", address: "a", seconds: 9 });
  expect(isIdle()).toBe(false);
  node.outstandingPrefillTokens = 0;
  while (!isIdle()) await clock.advance(50);
  return clock.nowMs();
}

test("gateways that share an endpoint consider it idle one by one, further apart the more there are", async () => {
  expect(await idleAfterMs(1, 0.9)).toBe(0);
  const [first, second, ofMore] = [await idleAfterMs(4, 0.1), await idleAfterMs(4, 0.9), await idleAfterMs(8, 0.9)];
  expect(first).toBeLessThan(second);
  expect(second).toBeLessThan(ofMore);
  expect(await idleAfterMs(1_000, 0.9)).toBeLessThanOrEqual(5_000);
});

test("an endpoint that another gateway used first is busy, and idle later", async () => {
  const clock = new VirtualClock();
  const node = { ...view("a"), gateways: 2, outstandingPrefillTokens: 90_000 };
  const turns = turnsOf([node], [], () => 0.5, clock);
  const isIdle = () => turns.look().isOver({ kind: "prefill", address: "a", seconds: 9 });
  const at = async (ms: number, tokens: number) => {
    await clock.advance(ms);
    node.outstandingPrefillTokens = tokens;
    return isIdle();
  };
  expect([await at(0, 90_000), await at(0, 0), await at(800, 90_000), await at(800, 0), await at(800, 0)]).toEqual(
    Array.from({ length: 5 }, () => false),
  );
  expect(await at(800, 0)).toBe(true);
});
