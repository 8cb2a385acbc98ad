import { describe, expect, test } from "vitest";
import type { PromptShape } from "../../../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import type { CacheNote } from "../../../../../../../gateway/upstream/load-balancing/cache-reasons.ts";
import { EndpointList } from "../../../../../../../gateway/upstream/load-balancing/endpoint-set.ts";
import { createPolicy } from "../../../../../../../gateway/upstream/load-balancing/policies/policies.ts";
import {
  PrefixLearning,
  RECENT_MS,
} from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-learning.ts";
import type { PickObserver } from "../../../../../../../gateway/upstream/load-balancing/policy.ts";
import { Announcements, PrefixIndex } from "../../../../../../../gateway/upstream/load-balancing/prefix-index.ts";
import { WorkLedger } from "../../../../../../../gateway/upstream/load-balancing/work-ledger.ts";
import type { Event } from "../../../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { delta, finished, progress, started } from "../../../../../../support/events/events.ts";
import { endpointWith } from "../../../../../../support/gateway/upstream/endpoint-with.ts";
import { VirtualClock } from "../../../../../../support/virtual-clock.ts";

const ADDRESS = "127.0.0.1:1";

/** A prompt of two messages, 1,000 tokens each, whose first one all prompts have. */
const shapeOf = (message: string): PromptShape => ({
  boundaries: [
    { hash: "head", bytes: 4_000, marked: false },
    { hash: message, bytes: 8_000, marked: false },
  ],
  lastTurn: undefined,
});

/** A gateway with one endpoint, which does not announce its prefixes. */
function gateway() {
  const work = new WorkLedger();
  const clock = new VirtualClock();
  const prefixes = new PrefixIndex(new Announcements(), { get: () => undefined });
  const policy = createPolicy("prefix_affinity", { prefixes, work, clock, random: () => 0.5 });
  const candidates = new EndpointList([endpointWith({ address: ADDRESS })]);
  const send = (message: string) => {
    const notes: CacheNote[] = [];
    const route = { shape: shapeOf(message), affinityKey: "session", ttlMs: undefined };
    const picked = policy.pick(candidates, route, clock.nowMs());
    const follower = picked?.observer as PickObserver;
    follower.begin();
    const cached = (note: CacheNote) => notes.push(note);
    const observer = {
      see: (events: readonly Event[]) => follower.see(events, { cached }),
      end: () => follower.end(),
    };
    return { observer, notes, uncachedTokens: picked?.uncachedTokens };
  };
  const tokensOf = (shape: PromptShape) => policy.expectedTokens?.({ shape, affinityKey: "k", ttlMs: undefined });
  return { send, work, clock, tokensOf };
}

describe("work that is outstanding on an endpoint", () => {
  test("work that is outstanding on an endpoint follows the engine's reports, from the estimate to the first delta", () => {
    const { send, work } = gateway();
    const { observer } = send("one");
    expect(work.outstanding(ADDRESS)).toBe(2_000);
    const outstanding = [started({ inputTokens: 900, cachedInputTokens: 100 }), progress(600), delta(0, "a")].map(
      (event) => {
        observer.see([event]);
        return work.outstanding(ADDRESS);
      },
    );
    expect(outstanding).toEqual([800, 300, 0]);
    observer.end();
    expect(work.outstanding(ADDRESS)).toBe(0);
  });

  test("work that is outstanding on an endpoint follows the progress that a node estimates before the engine says anything, once the prompt is begun", () => {
    const { send, work } = gateway();
    const { observer } = send("one");
    const outstanding = [progress(0), progress(1_500), started({ inputTokens: 900 }), progress(600)].map((event) => {
      observer.see([event]);
      return work.outstanding(ADDRESS);
    });
    expect(outstanding).toEqual([2_000, 500, 900, 300]);
    observer.end();
  });

  test("work that is outstanding on an endpoint is returned once when an attempt ends in the middle of its prefill", () => {
    const { send, work } = gateway();
    const { observer } = send("one");
    observer.see([started({ inputTokens: 900 })]);
    observer.end();
    observer.end();
    expect(work.outstanding(ADDRESS)).toBe(0);
  });
});

describe("the prefill speed of an endpoint", () => {
  const timings = { queue: { seconds: 5, nanos: 0 }, prefill: { seconds: 0, nanos: 500_000_000 }, decode: undefined };

  test.each([
    ["is learned from the engine's own times, without cached tokens and queueing", timings, 2_000],
    ["is not learned if the engine's queueing time is unknown", { ...timings, queue: undefined }, undefined],
  ])("the prefill speed of an endpoint %s", (_, times, speed) => {
    const { send, work } = gateway();
    const { observer } = send("one");
    observer.see([started({ inputTokens: 2_000 }), delta(0, "a")]);
    expect(work.speed(ADDRESS)).toBeUndefined();
    const usage = { inputTokens: 2_000, cachedInputTokens: 1_000 };
    observer.see([delta(0, "b"), finished(undefined, usage, { timings: times })]);
    expect(work.speed(ADDRESS)).toBe(speed);
  });
});

describe("the expected cache of an endpoint", () => {
  const STARTED = started({ inputTokens: 4_000, cachedInputTokens: 0 });

  test("the expected cache of an endpoint holds a prompt on its way, unless its attempt ends before the first delta", () => {
    const { send } = gateway();
    const first = send("one");
    const second = send("one");
    expect(second.uncachedTokens).toBe(0);
    for (const { observer } of [first, second]) observer.end();
    expect(send("one").uncachedTokens).toBe(2_000);
  });

  test("the expected cache of an endpoint holds a prefilled prompt with the engine's token count, which trains the tokens per byte", () => {
    const { send, tokensOf } = gateway();
    expect(tokensOf(shapeOf("x"))).toBe(2_000);
    for (let turn = 0; turn < 200; turn += 1)
      send(`turn ${turn}`).observer.see([STARTED, finished(undefined, { inputTokens: 4_000 })]);
    expect(tokensOf(shapeOf("x"))).toBeCloseTo(4_000, -1);
    const empty = gateway();
    empty
      .send("one")
      .observer.see([started({ inputTokens: 0 }), delta(0, "a"), finished(undefined, { inputTokens: 0 })]);
    expect(empty.tokensOf(shapeOf("x"))).toBe(2_000);
  });

  test.each([
    ["as expected", 1_900, 0],
    ["at least half of it", 1_000, 0],
    ["far less", 100, 2_000],
    ["unknown", undefined, 0],
  ])(
    "with %s of a prompt cached, earlier prompts there are expected or not",
    async (_, cachedInputTokens, uncached) => {
      const { send, clock } = gateway();
      for (const message of ["older", "turn"]) {
        send(message).observer.see([started({ inputTokens: 2_000 }), delta(0, "a")]);
        await clock.advance(10);
      }
      const again = send("turn");
      await clock.advance(10);
      again.observer.see([started({ inputTokens: 2_000, cachedInputTokens }), delta(0, "a")]);
      await clock.advance(10);
      // The head has been used since.
      expect(send("older").uncachedTokens).toBe(uncached / 2);
      expect(send("turn").uncachedTokens).toBe(0);
    },
  );

  test("the expected cache of an endpoint is not refuted by a miss of a prompt that was only on its way", async () => {
    const { send, clock } = gateway();
    send("older").observer.see([started({ inputTokens: 2_000 }), delta(0, "a")]);
    await clock.advance(10);
    send("turn");
    const sibling = send("turn");
    await clock.advance(10);
    sibling.observer.see([started({ inputTokens: 2_000, cachedInputTokens: 0 }), delta(0, "a")]);
    expect(send("older").uncachedTokens).toBe(0);
  });
});

describe("the cached tokens of a prompt", () => {
  const STARTED = started({ inputTokens: 2_000, cachedInputTokens: 0 });
  const USAGE = { inputTokens: 2_000, cachedInputTokens: 0, outputTokens: 10 };

  test("the cached tokens of a prompt are explained once, at the engine's first report", () => {
    const { observer, notes } = gateway().send("one");
    observer.see([STARTED]);
    expect(notes).toMatchObject([{ reason: "new", expectedTokens: 0, cachedTokens: 0 }]);
    observer.see([delta(0, "a")]);
    observer.see([finished(undefined, USAGE)]);
    expect(notes).toHaveLength(1);
  });

  test("the cached tokens of a prompt are explained at the end of the answer for an engine that reports them only there", () => {
    const { observer, notes } = gateway().send("one");
    observer.see([started({ inputTokens: 2_000 }), delta(0, "a")]);
    expect(notes).toHaveLength(0);
    observer.see([finished(undefined, USAGE)]);
    expect(notes).toMatchObject([{ reason: "new", cachedTokens: 0, lostTokens: 0 }]);
  });
});

test("the length of answers is learned", () => {
  const learning = new PrefixLearning();
  for (let answer = 0; answer < 200; answer += 1) learning.answered(0, 0, 2_000);
  expect(learning.answerTokens).toBeCloseTo(2_000, -1);
});

test("a conversation counts on its last endpoint, for minutes after its last turn", () => {
  const learning = new PrefixLearning();
  const on = (nowMs: number) => ["A", "B"].map((address) => learning.othersOn(address, "new", nowMs));
  learning.picked("one", "A", 0);
  learning.picked("two", "A", 10);
  expect(on(10)).toEqual([2, 0]);
  learning.picked("one", "B", 20);
  expect(on(20)).toEqual([1, 1]);
  expect(learning.othersOn("B", "one", 20)).toBe(0);
  expect(on(RECENT_MS + 10)).toEqual([0, 1]);
  learning.forget("B");
  expect(on(20)).toEqual([0, 0]);
});
