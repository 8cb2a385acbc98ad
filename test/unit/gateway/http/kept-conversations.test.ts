import { expect, test } from "vitest";
import { KeptConversations } from "../../../../gateway/http/websocket/kept-conversations.ts";
import { BodyBudget } from "../../../../gateway/overload/body-budget.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const MAX = 100_000;
const items = (bytes: number) => Buffer.alloc(bytes, "x");

function storeOf() {
  const budget = new BodyBudget({ maxBytes: MAX, clock: new VirtualClock() });
  return { budget, store: new KeptConversations(budget) };
}

test("bodies take the room of conversations, those used least recently first", async () => {
  const { budget, store } = storeOf();
  const [first, second, third] = [
    store.keep("a", items(10_000)),
    store.keep("b", items(10_000)),
    store.keep("c", items(10_000)),
  ];
  store.use(first);
  const body = budget.begin("d");
  expect(await body.reserve(75_000)).toBeUndefined();
  expect([first.items, second.items, third.items].map((kept) => kept !== undefined)).toEqual([true, false, true]);
  expect(store.bytes + budget.bytes).toBeLessThanOrEqual(MAX);
  body.release();
  expect(store.keep("b", items(30_000)).items).toBeDefined();
});

test("a tenant drops its own conversations before those of others", () => {
  const { store } = storeOf();
  const honest = store.keep("honest", items(20_000));
  const hostile = Array.from({ length: 50 }, () => store.keep("hostile", items(10_000)));
  expect(honest.items).toBeDefined();
  expect(hostile.at(-1)?.items).toBeDefined();
  expect(hostile.filter((kept) => kept.items).length).toBeLessThan(5);
  expect(store.bytes).toBeLessThanOrEqual(MAX);
});

test("one that is larger than its share is not kept, and a dropped one counts nothing", () => {
  const { store } = storeOf();
  expect(store.keep("a", items(90_000)).items).toBeUndefined();
  const kept = store.keep("a", items(1_000));
  kept.drop();
  kept.drop();
  expect([store.bytes, kept.items]).toEqual([0, undefined]);
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
    if (next(3) > 0) kept.push(store.keep(tenant, items(next(20_000))));
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
