import { expect, test } from "vitest";
import { PrefillThrottle } from "../../../../../gateway/upstream/admission/prefill-throttle.ts";
import { EndpointSet } from "../../../../../gateway/upstream/load-balancing/endpoint-set.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { endpointWith } from "../../../../support/gateway/upstream/endpoint-with.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/** Endpoints that prefill 10,000 tokens a second. */
const view = (address: string, outstandingPrefillTokens = 0) => endpointWith({ address, outstandingPrefillTokens });

/** A throttle in front of endpoints, of which those in `full` have no capacity. */
function throttleOf(endpoints: readonly EndpointView[], full: readonly string[] = [], random = 0) {
  const clock = new VirtualClock();
  const set = new EndpointSet({ clock });
  for (const endpoint of endpoints) set.set(endpoint);
  for (const address of full) set.holdBack(address, 60_000);
  return { clock, throttle: new PrefillThrottle({ endpoints: set, clock, random: () => random }) };
}

const prompt = (change = {}) => ({
  ...{ tokens: 100_000, isLast: () => false, overdue: false, pickAnywhere: () => undefined },
  ...change,
});

test.each([
  ["a short prompt goes to a busy endpoint", 20_000, 90_000, {}, undefined],
  ["a long one to an idle one", 20_001, 20_000, {}, undefined],
  ["without an expectation there is no wait", undefined, 90_000, {}, undefined],
  ["a long one waits for the endpoint that holds most of it", 40_000, 20_001, {}, { address: "a", seconds: 4 }],
  ["or for any where that holds little of it", 60_000, 20_001, {}, { address: undefined, seconds: 6 }],
  ["or for any once overdue", 40_000, 20_001, { overdue: true }, { address: undefined, seconds: 4 }],
  ["behind those that wait already", 40_000, 0, { isLast: () => true }, { address: "a", seconds: 4 }],
])("%s", (_name, uncachedTokens, ahead, given, expected) => {
  const endpoint = view("a", ahead);
  const pick = uncachedTokens === undefined ? { endpoint } : { endpoint, uncachedTokens };
  const wait = throttleOf([endpoint]).throttle.waitFor(pick, prompt(given));
  expect(wait).toEqual(expected && { kind: "prefill", ...expected });
});

test.each([
  [1_000, false, { kind: "slot", address: "home", seconds: 0.1 }],
  [30_000, false, { kind: "prefill", address: "home", seconds: 3 }],
  [80_000, false, undefined],
  [1_000, true, undefined],
])("a full endpoint that lacks %i of 90,000 tokens is awaited, overdue: %s", (uncachedTokens, overdue, expected) => {
  const [home, endpoint] = [view("home"), view("other")];
  const pickAnywhere = () => ({ endpoint: home, uncachedTokens });
  const { throttle } = throttleOf([home, endpoint], ["home"]);
  expect(throttle.waitFor({ endpoint, uncachedTokens: 90_000 }, prompt({ overdue, pickAnywhere }))).toEqual(expected);
});

/** An endpoint that several gateways share and that has been busy; `isIdle` checks it after some milliseconds. */
function shared(gateways: number, random: number) {
  const node = { ...view("a"), gateways, outstandingPrefillTokens: 90_000 };
  const { clock, throttle } = throttleOf([node], [], random);
  const isIdle = async (afterMs: number, tokens: number) => {
    await clock.advance(afterMs);
    node.outstandingPrefillTokens = tokens;
    return throttle.pass().isOver({ kind: "prefill", address: "a", seconds: 9 });
  };
  return { clock, isIdle };
}

test("gateways that share an endpoint consider it idle one after the other, further apart with more gateways", async () => {
  const idleAfterMs = async (gateways: number, random: number) => {
    const { clock, isIdle } = shared(gateways, random);
    expect(await isIdle(0, 90_000)).toBe(false);
    for (let idle = await isIdle(0, 0); !idle; ) idle = await isIdle(50, 0);
    return clock.nowMs();
  };
  const [first, second, ofMore] = [await idleAfterMs(4, 0.1), await idleAfterMs(4, 0.9), await idleAfterMs(8, 0.9)];
  expect(await idleAfterMs(1, 0.9)).toBe(0);
  expect(first).toBeLessThan(second);
  expect(second).toBeLessThan(ofMore);
  expect(await idleAfterMs(1_000, 0.9)).toBeLessThanOrEqual(5_000);
});

test("an endpoint that another gateway took first is busy again, and idle at another moment", async () => {
  const { isIdle } = shared(2, 0.5);
  const busy = [await isIdle(0, 90_000), await isIdle(0, 0), await isIdle(800, 90_000), await isIdle(800, 0)];
  expect([...busy, await isIdle(800, 0)]).toEqual(Array(5).fill(false));
  expect(await isIdle(800, 0)).toBe(true);
});
