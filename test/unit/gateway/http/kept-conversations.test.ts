import { expect, test } from "vitest";
import { type Conversation, KeptConversations } from "../../../../gateway/http/websocket/kept-conversations.ts";
import { BodyBudget } from "../../../../gateway/overload/body-budget.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const MAX = 100_000;
/** A conversation of so many bytes of messages. */
const said = (bytes: number) =>
  ({
    ...{ model: "m", inputTokens: 1, unopened: 0, output: [] },
    items: { calls: new Map(), tools: [] },
    prompt: { messages: [{ bytes: new Uint8Array(bytes), count: 1 }], shape: { boundaries: [] } },
  }) as unknown as Conversation;

function storeOf() {
  const budget = new BodyBudget({ maxBytes: MAX, clock: new VirtualClock() });
  return { budget, store: new KeptConversations(budget) };
}

test("bodies take the room of conversations, those used least recently first", async () => {
  const { budget, store } = storeOf();
  const [first, second, third] = [
    store.keep("a", said(10_000)),
    store.keep("b", said(10_000)),
    store.keep("c", said(10_000)),
  ];
  store.use(first);
  const body = budget.begin("d");
  expect(await body.reserve(75_000)).toBeUndefined();
  expect([first.conversation, second.conversation, third.conversation].map((kept) => kept !== undefined)).toEqual([
    true,
    false,
    true,
  ]);
  expect(store.bytes + budget.bytes).toBeLessThanOrEqual(MAX);
  body.release();
  expect(store.keep("b", said(30_000)).conversation).toBeDefined();
});

test("a tenant drops its own conversations before those of others", () => {
  const { store } = storeOf();
  const honest = store.keep("honest", said(20_000));
  const hostile = Array.from({ length: 50 }, () => store.keep("hostile", said(10_000)));
  expect(honest.conversation).toBeDefined();
  expect(hostile.at(-1)?.conversation).toBeDefined();
  expect(hostile.filter((kept) => kept.conversation).length).toBeLessThan(5);
  expect(store.bytes).toBeLessThanOrEqual(MAX);
});

test("one that is larger than its share is not kept, and a dropped one counts nothing", () => {
  const { store } = storeOf();
  expect(store.keep("a", said(90_000)).conversation).toBeUndefined();
  const kept = store.keep("a", said(1_000));
  kept.drop();
  kept.drop();
  expect([store.bytes, kept.conversation]).toEqual([0, undefined]);
  expect(store.use(kept)).toBeUndefined();
});

test("no random course exceeds the memory or loses count", () => {
  const { budget, store } = storeOf();
  let seed = 1;
  const next = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % below;
  };
  const kept: ReturnType<KeptConversations["keep"]>[] = [];
  const bodies: ReturnType<BodyBudget["begin"]>[] = [];
  for (let step = 0; step < 3_000; step += 1) {
    const tenant = `t${next(4)}`;
    if (next(3) > 0) kept.push(store.keep(tenant, said(next(20_000))));
    else if (next(2) > 0) {
      const body = budget.begin(tenant);
      body.add(next(30_000));
      bodies.push(body);
    } else bodies.splice(next(bodies.length + 1), 1)[0]?.release();
    if (next(5) === 0) kept[next(kept.length + 1)]?.drop();
    expect(store.bytes + budget.bytes).toBeLessThanOrEqual(MAX);
  }
  for (const one of kept) one.drop();
  expect(store.bytes).toBe(0);
});
