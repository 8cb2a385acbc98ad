import { expect, test } from "vitest";
import { NOTHING_TOLD } from "../../../../../gateway/upstream/load-balancing/held-prefixes.ts";
import { CacheLedger } from "../../../../../gateway/upstream/prefixes/cache-ledger.ts";
import type { CacheNote } from "../../../../../gateway/upstream/prefixes/cache-note.ts";
import { explained } from "../../../../../gateway/upstream/prefixes/explained-placement.ts";
import { delta, finished, started } from "../../../../support/events/events.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/** A prompt of two messages, 1,000 tokens each, the first of which all prompts share. */
const shapeOf = (message: string) => ({
  boundaries: [
    { hash: "head", bytes: 4_000, marked: false },
    { hash: message, bytes: 8_000, marked: false },
  ],
  lastTurn: undefined,
});

function gateway() {
  const clock = new VirtualClock();
  const ledger = new CacheLedger({
    ...{ prefixes: NOTHING_TOLD, lifeOf: () => 1, believedMs: () => 60_000 },
    ...{ blockTokensOf: () => 0, keptConversationsOf: () => 0 },
    viewOf: () => undefined,
  });
  return (message: string) => {
    const notes: CacheNote[] = [];
    const sent = ledger.sent({ shape: shapeOf(message), affinityKey: "session", cacheKey: "" }, "A", clock.nowMs());
    return { notes, follower: explained(undefined, { sent, onNote: (note) => notes.push(note), clock }) };
  };
}

const TOLD = started({ inputTokens: 2_000, cachedInputTokens: 0 });
const USAGE = { inputTokens: 2_000, cachedInputTokens: 0, outputTokens: 10 };

test("a node's first report on a prompt is noted once", () => {
  const { notes, follower } = gateway()("one");
  follower.see([TOLD]);
  expect(notes).toHaveLength(1);
  follower.see([delta(0, "a")]);
  follower.see([finished(undefined, USAGE)]);
  expect(notes).toHaveLength(1);
});

test("a request queued on the node is explained at its end, and shared after its prefill", () => {
  const send = gateway();
  const waiting = send("one");
  waiting.follower.see([started({ inputTokens: 2_000 }), delta(0, "a")]);
  expect(waiting.notes).toHaveLength(0);
  const other = send("two");
  other.follower.see([TOLD]);
  expect(other.notes).toMatchObject([{ expectedTokens: 1_000 }]);
  waiting.follower.see([finished(undefined, USAGE)]);
  expect(waiting.notes).toHaveLength(1);
});

test("a prompt is expected on a node once its answer has begun", () => {
  const send = gateway();
  const first = send("one");
  first.follower.see([TOLD]);
  const early = send("two");
  first.follower.see([delta(0, "a")]);
  const late = send("three");
  for (const { follower } of [early, late]) follower.see([TOLD]);
  expect(early.notes).toMatchObject([{ expectedTokens: 0 }]);
  expect(late.notes).toMatchObject([{ expectedTokens: 1_000 }]);
});
